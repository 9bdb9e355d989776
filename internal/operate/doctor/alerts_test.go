package doctor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

// A receiver that was not told of alerts is a warning, whether it refuses them or nothing was sent.
func TestReceiversThatAreNotTold(t *testing.T) {
	now := time.Date(2026, 5, 8, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		changed   time.Time
		told      string
		receiver  string
		saved     time.Time
		want, not string
	}{
		"told":           {now.Add(-time.Hour), `{"chat":{"firing":true,"at":"2026-05-08T11:01:00Z"}}`, `{}`, now, "", "receiver"},
		"waits":          {now.Add(-time.Minute), `{}`, `{}`, now, "", "receiver"},
		"not told":       {now.Add(-time.Hour), `{}`, `{}`, now, "receiver chat was not told of 1 alert for 1h", "did not take"},
		"refused once":   {now.Add(-time.Minute), `{}`, `{"failures":1,"error":"busy"}`, now, "", "receiver"},
		"refused thrice": {now.Add(-time.Minute), `{}`, `{"failures":3,"error":"busy"}`, now, "receiver chat did not take 3 notices: busy", "not told"},
		"both":           {now.Add(-time.Hour), `{}`, `{"failures":1,"error":"busy"}`, now, "receiver chat was not told of 1 alert for 1h; it did not take 1 notice: busy", "3"},
		"clock":          {now.Add(-time.Minute), `{}`, `{}`, now.Add(time.Hour), "the state of the alerts is of a time in 1h", "receiver"},
	} {
		t.Run(name, func(t *testing.T) {
			var state notice.State
			document := fmt.Sprintf(`{"holder":"a","saved":%q,"receivers":{"chat":%s},"alerts":{"k":{"receivers":["chat"],"fired":%q,"changed":%q,"told":%s}}}`,
				test.saved.Format(time.RFC3339), test.receiver, test.changed.Format(time.RFC3339), test.changed.Format(time.RFC3339), test.told)
			if err := json.Unmarshal([]byte(document), &state); err != nil {
				t.Fatal(err)
			}
			d := newDoctor(Config{Settings: config.Config{Alerts: config.Alerts{GroupWait: 30 * time.Second, GroupInterval: 5 * time.Minute}}})
			d.records().judgeAlerts(&state, now)
			var got []string
			for _, f := range d.findings {
				if f.Verdict == Warning {
					got = append(got, f.Detail)
				}
			}
			text := strings.Join(got, "\n")
			if text != test.want || strings.Contains(text, test.not) {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}
