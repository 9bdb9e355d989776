package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation"
)

// A plan has the arguments with which the action is about what was shown.
func TestGuards(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		guard                    guard
		arguments, planned, want string // or why it cannot be done
	}{
		"what matches":                 {matched, `{"reason":"x"}`, `{"matched":2,"up_to":7}`, `{"expect":2,"reason":"x"}`}, // without up_to, which it does not have
		"nothing":                      {matched, `{}`, `{"matched":0}`, "nothing matches"},
		"a problem":                    {matched, `{}`, `{"matched":2,"problem":"x"}`, "a problem"},
		"the rest of a job":            {left, `{"id":"j"}`, `{"total":9,"sent":3,"skipped":1,"stopped":1,"failed":1}`, `{"expect":3,"id":"j"}`},
		"a job that has ended":         {left, `{"id":"j"}`, `{"total":3,"sent":3}`, "no message is left"},
		"parked messages":              {listed, `{"name":"s"}`, `{"parked":[{"position":"1"},{"position":"2"}]}`, `{"name":"s","positions":["1","2"]}`},
		"some of them":                 {listed, `{"name":"s","positions":["2","3"]}`, `{"parked":[{"position":"1"},{"position":"2"}]}`, `{"name":"s","positions":["2"]}`},
		"none of them":                 {listed, `{"name":"s","positions":["3"]}`, `{"parked":[{"position":"1"}]}`, "no such message"},
		"more than a request can name": {listed, `{"name":"s"}`, `{"parked":[` + strings.Repeat(`{"position":"1"},`, 1000) + `{"position":"2"}]}`, "more than 1000"},
	} {
		var arguments map[string]json.RawMessage
		_ = json.Unmarshal([]byte(test.arguments), &arguments)
		guarded, why := test.guard(&operation.Operation{}, arguments, []byte(test.planned))
		got, _ := json.Marshal(guarded)
		if guarded != nil && string(got) != test.want || guarded == nil && !strings.Contains(why, test.want) {
			t.Errorf("%s: %s, %s, want %s", name, got, why, test.want)
		}
	}
}
