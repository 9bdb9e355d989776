package cli

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// A line outside tables says the zone of its time; a list says it in its title, in a terminal.
func TestLinesSayTheZoneOfTheirTimes(t *testing.T) {
	at := happened
	group := failures.FailureGroup{Group: history.Group{Count: 1, First: at, Last: at}, State: failures.State{
		Resolved: &failures.Resolution{By: "ann", Time: at}, Muted: &failures.Mute{By: "ann", Until: &at}, Notes: []failures.Note{{By: "ann", Time: at}},
	}}
	failed := schemas.Event{Action: schemas.Poisoned}
	failed.Time, failed.EventID = at, "e"
	shown := shownGroup{
		group, failures.GroupFailure{Event: eventjson.Of(t.Context(), schemas.DocumentFormat{}, failed)}, failures.GroupHistory{Entries: []failures.HistoryEntry{{Time: at, What: failures.Noted}}},
	}
	subscription := subscriptions.Subscription{Created: at, UnattendedSince: &at, Waiting: subscription.Unattended}
	job := replayer.Job{ID: "j", Created: at, Started: at, Updated: at, Ended: at}
	explanation := messages.Explanation{Failed: at, GivenUp: at, Schedule: []messages.Attempt{{Number: 2, Time: at}}}
	step := schemas.Event{Action: schemas.Poisoned}
	step.Time = at
	step.EventID = "e"
	for name, print := range map[string]func(to printer) error{
		"plan":         func(to printer) error { return writePreview(to.Out, replayer.Plan{Matched: 1, First: at, Last: at}) },
		"group":        func(to printer) error { return failurePrinter{to}.group(shown) },
		"subscription": func(to printer) error { return subscriptionPrinter{to}.subscription(subscription) },
		"job":          func(to printer) error { return (&outputFormat{name: "text"}).job(to.Out, job) },
		"body":         func(to printer) error { return to.unfit(messages.InvalidMessage{Time: at}) },
		"finding":      func(to printer) error { return to.findings([]doctor.Finding{{Since: &at}}, 0, 0) },
		"alerts":       func(to printer) error { return alertPrinter{to}.alerts(alerts.Alerts{Saved: &at}, at) },
		"explanation":  func(to printer) error { return to.explanations([]messages.Explanation{explanation}, "") },
		"period": func(to printer) error {
			return to.printf("%s", wordsOf(&system.EmptyPeriodError{Begin: at, End: at}))
		},
		"replayed": func(to printer) error { return to.printf("%s", replayedEventText("e", []schemas.Event{step})) },
		"life": func(to printer) error {
			p := page{screen: to.screen}
			p.life(history.Life{Events: []schemas.Event{step}})
			_, err := io.Copy(to.Out, &p)
			return err
		},
	} {
		var out bytes.Buffer
		if err := print(printer{Streams: terminal.Streams{Out: &out, Err: &out}, screen: terminal.Screen{Width: 100}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		titled, shown := false, 0
		for line := range strings.Lines(out.String()) {
			titled = titled || strings.HasSuffix(strings.TrimSpace(line), fmt.Sprintf(" (%s)", terminal.Zone()))
			times := regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d{3})?( UTC| [+-]\d\d:\d\d)?`).FindAllStringSubmatch(line, -1)
			for i, found := range times {
				if shown++; found[2] == "" && !titled && i == len(times)-1 {
					t.Errorf("%s does not say the zone: %s", name, line)
				}
			}
		}
		if shown == 0 {
			t.Errorf("%s shows no time:\n%s", name, out.String())
		}
	}
}
