package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/schemas"
)

// What distinguishes a group is printed with its counts and the query that finds them, the same from
// a store and through the API.
func TestFailedWhy(t *testing.T) { bothWays(t, testFailedWhy) }

func testFailedWhy(t *testing.T, seed seeder) {
	a := seed(t)
	tenant := func(name string) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Envelope.Headers["tenant"] = name }
	}
	var events []schemas.Event
	for n := range 40 {
		events = append(events, a.event(3*n+1, schemas.Handled, at("orders"), tenant(fmt.Sprint("t", n%20))))
		if n%2 == 0 {
			events = append(events, a.event(3*n+2, schemas.Poisoned, poisonedAt("orders", "no stock of item 7"), tenant("t7")))
		}
	}
	a.keep(t, append(events, a.event(130, schemas.Poisoned, poisonedAt("mails", "no stock of item 7")))...)
	group := history.Kind{Queue: "orders", Class: "server", Type: "http.Status", Group: "no stock of item #"}.ID()
	want := `
		group ` + group + `
		queue orders
		error no stock of item #
		failures 20 failures, also resolved ones, from 2026-05-04 02:01:56 UTC to 2026-05-04 03:01:56 UTC
		compared with 39 handled messages of the same time: CONDITIONS

		1. headers.tenant is t7
		failed 20 of 20 (100 %)
		handled 2 of 39 (5 %)
		query event.action: "poisoned" and watership.queue: "orders" and`
	for _, of := range []string{group, "m-2"} {
		text := a.must(t, "failed", "why", of)
		for _, line := range strings.Split(want, "\n") {
			line = strings.TrimSpace(strings.ReplaceAll(line, "CONDITIONS", ""))
			if !strings.Contains(strings.Join(strings.Fields(text), " "), line) {
				t.Errorf("there is no %q in\n%s", line, text)
			}
		}
	}
	var why failures.Why
	if err := json.Unmarshal([]byte(a.must(t, "failed", "why", group, "-o", "json")), &why); err != nil || why.Outcome != failures.Found {
		t.Fatalf("%v, %+v", err, why)
	}
	for _, c := range why.Causes { // the queries find what was counted
		for _, counted := range []failures.Counted{c.Failures, c.Handled} {
			if got := strings.TrimSpace(a.must(t, "search", counted.Query, "--count")); got != fmt.Sprint(counted.With) {
				t.Errorf("%s finds %s of %d", counted.Query, got, counted.With)
			}
		}
	}
	mails := history.Kind{Queue: "mails", Class: "server", Type: "http.Status", Group: "no stock of item #"}.ID()
	for of, text := range map[string]string{mails: "queue mails handled no messages in that time", "m-1": "has not failed for good", "nobody": "neither a group of failures nor a message has the id"} {
		if r := a.call(t, "failed", "why", of); !strings.Contains(r.Out+r.Err, text) {
			t.Errorf("%s: %+v", of, r)
		}
	}
}
