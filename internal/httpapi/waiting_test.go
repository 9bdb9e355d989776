package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// A message waits from an event that schedules its next attempt until another event of it,
// or until the attempt is due. A limited caller sees and decides about its queues alone.
func TestWaiting(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		now, n := time.Now(), 0
		keep := func(message, queue string, action schemas.Action, since, delay time.Duration) {
			n++
			r.keep(t, r.event(n, action, func(e *schemas.Event) {
				e.Message, e.Queue, e.Attempt, e.Delay, e.Time = message, queue, 1, delay, now.Add(-since)
				e.Failure = schemas.Failure{Message: fmt.Sprintf("order %d is late", n), Type: "Late", Class: "slow"}
			}))
		}
		keep("waits", "orders", schemas.RetryScheduled, time.Minute, time.Hour)
		keep("waits-too", "orders", schemas.RetryScheduled, time.Minute, 2*time.Hour)
		keep("handled", "orders", schemas.RetryScheduled, time.Minute, time.Hour)
		keep("handled", "orders", schemas.Handled, time.Second, 0)
		keep("discarded", "orders", schemas.RetryScheduled, time.Minute, time.Hour)
		keep("discarded", "orders", schemas.Discarded, time.Second, 0)
		keep("due", "orders", schemas.RetryScheduled, time.Minute, 30*time.Second)
		keep("postponed", "orders", schemas.RetryScheduled, time.Minute, time.Hour)
		keep("postponed", "orders", schemas.Rescheduled, time.Second, 20*24*time.Hour)
		keep("retried", "orders", schemas.RetryScheduled, time.Minute, time.Hour)
		keep("retried", "orders", schemas.Rescheduled, time.Second, 0)
		keep("mail", "mails", schemas.RetryScheduled, time.Minute, time.Hour)

		limited := r.as(t, access.Token{Name: "mailer", Role: access.Operator, Bodies: true, Queues: []string{"mails"}})
		for _, one := range []struct {
			as   rig
			path string
			want string
		}{
			{r, "/waiting", "mail waits waits-too postponed"},
			{r, "/waiting" + query("query", "queue: orders"), "waits waits-too postponed"},
			{r, "/waiting" + query("query", "action: rescheduled"), "postponed"},
			{limited, "/waiting", "mail"},
			{limited, "/waiting" + query("query", "queue: orders"), ""},
		} {
			var got []string
			for _, m := range one.as.get(t, one.path)["messages"].([]any) {
				got = append(got, m.(map[string]any)["id"].(string))
			}
			if text := strings.Join(got, " "); !sameWords(text, one.want) {
				t.Errorf("%s: %q, want %q", one.path, text, one.want)
			}
		}
		groups := r.get(t, "/waiting/groups")["groups"].([]any)
		if first := groups[0].(map[string]any); len(groups) != 2 || first["count"] != 3.0 || first["class"] != "slow" || first["error_group"] != "order # is late" {
			t.Errorf("%v", groups)
		}
		decide := func(as rig, body string) response { return as.do(t, http.MethodPost, "/waiting/decide", body) }
		if got := decide(r, `{"query":"*","action":"cancel","reason":"x","dry_run":true}`).json(t); got["matched"] != 4.0 {
			t.Errorf("%v", got)
		}
		if got := decide(limited, `{"query":"*","action":"cancel","reason":"x","dry_run":true}`).json(t); got["matched"] != 1.0 {
			t.Errorf("%v", got)
		}
		if got := decide(limited, `{"ids":["waits","mail"],"action":"now","reason":"x","dry_run":true}`).json(t); got["matched"] != 1.0 || fmt.Sprint(got["unknown"]) != "[waits]" {
			t.Errorf("%v", got)
		}
		shown := decide(r, `{"query":"*","action":"cancel","reason":"x","dry_run":true}`).json(t)
		keep("due", "orders", schemas.Handled, time.Second, 0)
		keep("waits-too", "orders", schemas.RetryScheduled, time.Second, time.Hour) // after another attempt
		keep("later", "orders", schemas.RetryScheduled, time.Second, time.Hour)
		for body, want := range map[string]float64{
			fmt.Sprintf(`{"query":"*","action":"cancel","reason":"x","dry_run":true,"up_to":%v}`, shown["up_to"]):             3, // of the four
			fmt.Sprintf(`{"ids":["waits","later"],"action":"cancel","reason":"x","dry_run":true,"up_to":%v}`, shown["up_to"]): 1,
			`{"query":"*","action":"cancel","reason":"x","dry_run":true}`:                                                     5,
		} {
			if got := decide(r, body).json(t); got["matched"] != want {
				t.Errorf("%s: %v, want %v", body, got, want)
			}
		}
		decide(r, `{"query":"*","action":"cancel","reason":"x","expect":3}`).wantProblem(t, http.StatusConflict, "5 messages match, 3 expected: nothing was changed")
		decide(r, `{"query":"*","action":"postpone","reason":"x"}`).wantProblem(t, http.StatusBadRequest, "must be in the future")
		decide(r, `{"action":"cancel","reason":"x"}`).wantProblem(t, http.StatusBadRequest, "expected query, dsl or ids")
		viewer := r.as(t, access.Token{Name: "vera", Role: access.Viewer})
		decide(viewer, `{"query":"*","action":"cancel","reason":"x"}`).wantProblem(t, http.StatusForbidden, "operator")
	})
}

// sameWords ignores the order of messages that are due at the same time.
func sameWords(a, b string) bool {
	words := func(text string) map[string]int {
		counts := map[string]int{}
		for _, word := range strings.Fields(text) {
			counts[word]++
		}
		return counts
	}
	return fmt.Sprint(words(a)) == fmt.Sprint(words(b))
}
