package messages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

var now = time.Date(2026, 5, 8, 22, 0, 0, 0, time.UTC)

func policies() Policies {
	return Policies{
		Default: &retry.Policy{Delays: []time.Duration{time.Second}},
		Rules:   []retry.Rule{{Name: "stock", ErrorType: "*Stock*", Class: "stock"}},
		Routes: []pipeline.Route{{
			Queue: "orders", Rules: []retry.Rule{{Name: "gold", Headers: map[string]string{"tier": "gold"}, Class: "gold"}},
			Policy: &retry.Policy{
				Delays:  []time.Duration{time.Second, time.Minute},
				Classes: map[string]retry.Policy{"stock": {Delays: []time.Duration{time.Minute}, At: []string{"03:00"}}, "gold": {}},
			},
		}, {Queue: "foreign", Headers: retry.Headers{Limit: "limit"}}},
	}
}

// text is an explanation on one line.
func text(ex Explanation) string {
	line := ""
	if !ex.Route {
		line = "no route: "
	}
	line += fmt.Sprintf("%s by %q: %d of %d, %s", ex.Class, ex.Rule, ex.Attempt, ex.Attempts, ex.Action)
	for _, attempt := range ex.Schedule {
		line += fmt.Sprintf(", %d at %s", attempt.Number, attempt.Time.Format("15:04:05"))
	}
	if !ex.GivenUp.IsZero() {
		line += ", given up at " + ex.GivenUp.Format("15:04:05")
	}
	return line
}

func TestErrorsAreExplained(t *testing.T) {
	stock := Error{"shop.StockError", "no stock"}
	for want, r := range map[string]Request{
		`stock by "stock": 1 of 3, retry, 2 at 22:01:00, 3 at 03:00:01, given up at 03:00:01`: {Queue: "orders", Error: stock},
		`stock by "stock": 2 of 3, retry, 3 at 03:00:01, given up at 03:00:01`:                {Queue: "orders", Error: stock, Attempt: 2},
		`stock by "stock": 3 of 3, poison, given up at 22:00:00`:                              {Queue: "orders", Error: stock, Attempt: 3},
		`gold by "gold": 1 of 1, poison, given up at 22:00:00`:                                {Queue: "orders", Error: stock, Headers: []string{"tier=gold"}},
		`default by "": 1 of 3, retry, 2 at 22:00:01, 3 at 22:01:01, given up at 22:01:01`:    {Queue: "orders", Error: Error{"", "other"}},
		`own by "": 1 of 3, retry, 2 at 22:00:01, 3 at 22:01:01, given up at 22:01:01`:        {Queue: "orders", Error: stock, Class: "own"},
		`no route: stock by "stock": 1 of 2, retry, 2 at 22:00:01, given up at 22:00:01`:      {Queue: "elsewhere", Error: stock},
		`default by "": 1 of 3, retry, 2 at 22:00:01, 3 at 22:00:02, given up at 22:00:02`:    {Queue: "foreign", Error: Error{"", "x"}, Headers: []string{"limit=2"}},
	} {
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		got, err := policies().Explain(t.Context(), r, nil, now)
		if err != nil || len(got) != 1 || text(got[0]) != want {
			t.Errorf("%+v %v: got\n%s\nwant\n%s", r, err, text(got[0]), want)
		}
	}
}

// life is that of a message with failures at queues, each an hour after the one before.
func life(steps ...schemas.Event) Life {
	l := Life{}
	state := schemas.State{Fingerprint: "v1:f"}
	for i, step := range steps {
		at := now.Add(time.Duration(i) * time.Hour)
		e := schemas.Event{State: state, Action: step.Action}
		if step.Action == schemas.RetryScheduled || step.Action == schemas.Poisoned {
			state = state.Failed(at, 0, step.Queue, step.Failure)
			if step.Waits > 0 { // it used no attempt
				state.Attempt, state.Attempts = e.Attempt, e.Attempts
			}
			e.State = state
		}
		e.Queue, e.Time, e.Delay = step.Queue, at, step.Delay
		l.Events = append(l.Events, e)
	}
	l.Event = schemas.Event{State: schemas.State{Fingerprint: "v1:f"}, Envelope: schemas.Envelope{Headers: map[string]any{"tier": "silver"}}}
	return l
}

func TestMessagesAreExplained(t *testing.T) {
	at := func(action schemas.Action, queue string, class string, delay time.Duration) schemas.Event {
		return schemas.Event{Action: action, State: schemas.State{Queue: queue, Delay: delay, Failure: schemas.Failure{Message: "no stock", Type: "StockError", Class: class}}}
	}
	again := at(schemas.RetryScheduled, "orders", "stock", time.Minute)
	again.Failure.Rule = "former"
	waits := again
	waits.Waits = 1
	for name, test := range map[string]struct {
		life  Life
		queue string
		want  string
	}{
		"it waits":               {life(again), "", `stock by "stock": 1 of 3, retry, 2 at 22:01:00, 3 at 03:00:01, given up at 03:00:01`},
		"an outage":              {life(again, waits), "", `stock by "stock": 2 of 3, defer, 2 at 23:01:00, 3 at 03:00:01, given up at 03:00:01`},
		"poison":                 {life(again, at(schemas.Poisoned, "orders", "stock", 0)), "", `stock by "": 2 of 3, poison, given up at 23:00:00`},
		"it was handled":         {life(again, at(schemas.Handled, "orders", "", 0)), "", `stock by "stock": 1 of 3, handled`},
		"it was cancelled":       {life(again, at(schemas.Discarded, "orders", "", 0)), "", `stock by "stock": 1 of 3, discarded`},
		"it was postponed":       {life(again, at(schemas.Rescheduled, "orders", "", 2*time.Hour)), "", `stock by "stock": 1 of 3, retry, 2 at 01:00:00, 3 at 03:00:01, given up at 03:00:01`},
		"handled elsewhere":      {life(again, at(schemas.Handled, "mail", "", 0)), "", `stock by "stock": 1 of 3, retry, 2 at 22:01:00, 3 at 03:00:01, given up at 03:00:01`},
		"the queue failed last":  {life(again, at(schemas.RetryScheduled, "mail", "own", time.Second)), "", `no route: own by "": 2 of 2, retry, 3 at 23:00:01, given up at 23:00:01`},
		"another queue":          {life(again, at(schemas.RetryScheduled, "mail", "own", time.Second)), "orders", `stock by "stock": 1 of 3, retry, 2 at 22:01:00, 3 at 03:00:01, given up at 03:00:01`},
		"a class that was named": {life(at(schemas.RetryScheduled, "orders", "gold", time.Hour)), "", `gold by "": 1 of 1, retry, 2 at 23:00:00, given up at 23:00:00`},
	} {
		find := func(context.Context, string) ([]Life, error) { return []Life{{}, test.life}, nil }
		got, err := policies().Explain(t.Context(), Request{ID: "x", Queue: test.queue}, find, now)
		if err != nil || len(got) != 1 || text(got[0]) != test.want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, text(got[0]), test.want)
		}
	}
	status := at(schemas.Poisoned, "orders", "stock", 0)
	status.Failure.Message = (&webhook.StatusError{Status: 422, URL: "https://shop.example.com:8443", Body: "sold: out"}).Error()
	teapot := at(schemas.Poisoned, "orders", "stock", 0)
	teapot.Failure.Message = (&webhook.StatusError{Status: 418, URL: "http://[::1]"}).Error()
	for want, l := range map[string]Life{
		"permanent, by the answer 422 Unprocessable Entity": life(status),
		"permanent, by the answer 418 I'm a teapot":         life(again, teapot),
		"permanent, by its error":                           life(at(schemas.Poisoned, "orders", "stock", 0)),
		"failed 3 of 3 attempts":                            life(again, again, status),
		"":                                                  life(again),
	} {
		if got, err := policies().Message(l.Event, l.Events, ""); err != nil || got.Reason != want {
			t.Errorf("%v: poison by %q, want %q", err, got.Reason, want)
		}
	}
	got := policies().recorded(schemas.Event{}, life(again).Events[0], schemas.Event{})
	if diff := cmp.Diff(&Recorded{"retry_scheduled", "stock", "former"}, got.Recorded); diff != "" {
		t.Error(diff)
	}
	_, err := policies().Explain(t.Context(), Request{ID: "x", Queue: "mail"}, func(context.Context, string) ([]Life, error) { return []Life{life(again)}, nil }, now)
	var none *NoFailureError
	if !errors.As(err, &none) || err.Error() != "message \"v1:f\" has no failure at queue mail" {
		t.Error(err)
	}
}

// failedAt is the failure of an attempt at a queue.
func failedAt(queue string) schemas.Event {
	return schemas.Event{Action: schemas.RetryScheduled, State: schemas.State{Queue: queue}}
}

func TestTheMessagesWithAnIDAreExplained(t *testing.T) {
	for name, test := range map[string]struct {
		lives []Life
		queue string
		want  int // explanations; 0: an error
	}{
		"one":             {[]Life{life(failedAt("orders"))}, "", 1},
		"two":             {[]Life{life(failedAt("orders")), life(failedAt("orders"), failedAt("orders"))}, "", 2},
		"one has not":     {[]Life{life(failedAt("orders")), life()}, "", 1},
		"of one queue":    {[]Life{life(failedAt("orders")), life(failedAt("foreign"))}, "foreign", 1},
		"of no queue":     {[]Life{life(failedAt("orders"))}, "elsewhere", 0},
		"without failure": {[]Life{life()}, "", 0},
		"none":            {nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			find := func(context.Context, string) ([]Life, error) { return test.lives, nil }
			list, err := policies().Explain(t.Context(), Request{ID: "m", Queue: test.queue}, find, now.Add(time.Minute))
			var none *NoFailureError
			if len(list) != test.want || (test.want == 0) != errors.As(err, &none) {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

func TestAnErrorOfTheStoreIsNoMissingFailure(t *testing.T) {
	away := errors.New("no answer")
	_, err := policies().Explain(t.Context(), Request{ID: "m"}, func(context.Context, string) ([]Life, error) { return nil, away }, now)
	if !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
}

func TestRequestsAreChecked(t *testing.T) {
	for want, r := range map[string]Request{
		"expected the queue of the error":                  {Error: Error{"", "x"}},
		"expected the id of a message, or an error":        {Queue: "a"},
		"expected either the id of a message, or an error": {ID: "a", Error: Error{"", "x"}},
		"attempt -1: expected 1 to 10000":                  {Queue: "a", Error: Error{"", "x"}, Attempt: -1},
		"attempt 10001: expected 1 to 10000":               {Queue: "a", Error: Error{"", "x"}, Attempt: 10001},
		`header "a": expected NAME=VALUE`:                  {Queue: "a", Error: Error{"", "x"}, Headers: []string{"a"}},
	} {
		if err := r.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestParseError(t *testing.T) {
	for s, want := range map[string]Error{
		"TypeError: x is undefined":    {"TypeError", "x is undefined"},
		"ActiveRecord::Deadlocked: no": {"ActiveRecord::Deadlocked", "no"},
		"timeout":                      {"", "timeout"},
		"cannot connect: refused":      {"", "cannot connect: refused"},
		"java.io.IOException:":         {"java.io.IOException", ""},
		":text":                        {"", "text"},
		"E:a: b":                       {"E", "a: b"},
	} {
		if got := ParseError(s); got != want {
			t.Errorf("%q: got %+v, want %+v", s, got, want)
		}
	}
}

// No text of an error gets lost.
func FuzzParseError(f *testing.F) {
	f.Add("A::B: c")
	f.Fuzz(func(t *testing.T, s string) {
		e := ParseError(s)
		if e.Text != s && e.Type+":"+e.Text != s && e.Type+": "+e.Text != s {
			t.Errorf("%q: %+v", s, e)
		}
	})
}
