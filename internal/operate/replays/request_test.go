package replays

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// A handled event may be recorded before the published one, and so only published events have
// the order of a stream.
func TestOrderOfStreamsIsOfPublishedEvents(t *testing.T) {
	byStream := replayer.Job{Order: replayer.ByStream, Target: replayer.Target{Kind: replayer.ToOrigin}}
	failed := replayer.Job{Order: replayer.ByStream, Target: replayer.Target{Kind: replayer.ToFailedQueue}}
	for _, test := range []struct {
		request Request
		limited bool
	}{
		{Request{Query: "stream.id: *", Job: byStream}, true},
		{Request{Query: "stream.id: * and action: (published or handled)", Job: byStream}, false},
		{Request{Query: "stream.id: *", Job: failed}, false},
		{Request{Query: "stream.id: *", IDs: []string{"m-1"}, Job: byStream}, false},
		{Request{Query: "stream.id: *"}, false},
	} {
		job, err := Prepare(system.NewLanguage(schemas.DocumentFormat{}), test.request)
		if err != nil {
			t.Fatal(err)
		}
		if limited := strings.HasPrefix(job.Query, `(event.action: "published"`); limited != test.limited {
			t.Errorf("%+v: %s", test.request, job.Query)
		}
	}
}

// The reason of a replay, which may be missing, has a length that the HTTP API takes, too.
func TestReasonsOfReplays(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("é", 1001): "the reason has 1001 characters: expected at most 1000", "\xff": "the reason is not UTF-8",
	} {
		_, err := Prepare(system.NewLanguage(schemas.DocumentFormat{}), Request{Job: replayer.Job{Reason: text}})
		var input system.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// prepare makes the job of a request.
func prepare(t *testing.T, r Request) replayer.Job {
	t.Helper()
	job, err := Prepare(system.NewLanguage(schemas.DocumentFormat{}), r)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestTheQueryOfARequest(t *testing.T) {
	for name, test := range map[string]struct {
		request Request
		want    []string // parts of the query
	}{
		"a query":        {Request{Query: "queue: orders"}, []string{"watership.queue: orders"}},
		"nothing is all": {Request{}, []string{"*"}},
		"ids":            {Request{IDs: []string{"m-1", "m-2"}}, []string{"m-1", "m-2"}},
		"a group":        {Request{Group: "no stock"}, []string{"watership.error_group", "no stock", "poisoned"}},
		"both":           {Request{Query: "queue: orders", IDs: []string{"m-1"}}, []string{"watership.queue: orders", "m-1", " and "}},
		"a period":       {Request{Query: "queue: orders", Period: system.Period{From: "2026-05-04T00:00:00Z"}}, []string{"@timestamp", "2026-05-04"}},
	} {
		t.Run(name, func(t *testing.T) {
			job := prepare(t, test.request)
			for _, part := range test.want {
				if !strings.Contains(job.Query, part) {
					t.Errorf("%q is not in %s", part, job.Query)
				}
			}
		})
	}
}

// A group is of permanent failures: attempts with the same error may have succeeded later.
func TestAGroupIsOfFailuresThatWereGivenUp(t *testing.T) {
	if query := prepare(t, Request{Group: "g"}).Query; strings.Contains(query, "retry_scheduled") {
		t.Error(query)
	}
}

// A job that is resumed tomorrow finds the messages of today.
func TestTimesBecomeAbsolute(t *testing.T) {
	if query := prepare(t, Request{Query: "@timestamp >= now-1h"}).Query; strings.Contains(query, "now") {
		t.Error(query)
	}
}

func TestRelativeTimesOfDSLAreRefused(t *testing.T) {
	for dsl, good := range map[string]bool{
		`{"range":{"@timestamp":{"gte":"now-1h"}}}`: false, `{"range":{"@timestamp":{"lt":"now"}}}`: false, `{"range":{"@timestamp":{"lt":"now||/d"}}}`: false,
		`{"range":{"@timestamp":{"gte":"2026-05-04T00:00:00Z"}}}`: true, `{"match":{"message":"nowhere"}}`: true, ``: true,
	} {
		_, err := Prepare(system.NewLanguage(schemas.DocumentFormat{}), Request{DSL: []byte(dsl)})
		var input system.InputError
		if good && err != nil || !good && !errors.As(err, &input) {
			t.Errorf("%s: %v", dsl, err)
		}
	}
}

func TestMistakesInRequests(t *testing.T) {
	for name, test := range map[string]struct {
		request Request
		want    string
	}{
		"a query":      {Request{Query: "queue: ("}, ""},
		"a field":      {Request{Query: "colour: red"}, "colour"},
		"too many ids": {Request{IDs: make([]string, maxIDs+1)}, "10001 ids: at most 10000 are possible in one replay"},
		"two begins":   {Request{Period: system.Period{Since: "1h", From: "2026-05-04"}}, "since and from cannot be combined"},
	} {
		_, err := Prepare(system.NewLanguage(schemas.DocumentFormat{}), test.request)
		var input system.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The limits of a caller hold for every criterion.
func TestRequestsStayWithinTheLimitsOfTheirCaller(t *testing.T) {
	restrict := func(n kql.Node) (kql.Node, error) { return kql.And{n, kql.FieldIs("watership.queue", "mine")}, nil }
	for name, r := range map[string]Request{"all": {}, "ids": {IDs: []string{"m"}}, "a group": {Group: "g"}, "a query": {Query: "queue: a or queue: b"}} {
		r.Restrict = restrict
		if query := prepare(t, r).Query; !strings.HasSuffix(query, "watership.queue: \"mine\"") && !strings.HasSuffix(query, "watership.queue: mine") {
			t.Errorf("%s: %s", name, query)
		}
	}
	refuse := Request{Restrict: func(kql.Node) (kql.Node, error) { return nil, errors.New("not allowed") }}
	if _, err := Prepare(system.NewLanguage(schemas.DocumentFormat{}), refuse); err == nil {
		t.Error("a caller without rights replays")
	}
}

func TestPlansThatMustNotBeRun(t *testing.T) {
	gone := replayer.Plan{Matched: 3, Routes: []replayer.Route{{Unroutable: 2}}}
	unrecorded := replayer.Plan{Rivals: []replayer.Rival{{Messages: 2}}}
	unstored := replayer.Plan{Matched: 1, Log: replayer.Log{Events: 4}}
	again := unstored
	again.Job.Again = true
	for name, test := range map[string]struct {
		plan                  replayer.Plan
		unchecked, unattended bool
		want                  string // "": it may be run
	}{
		"nothing to send":           {replayer.Plan{}, false, false, ""},
		"some messages":             {replayer.Plan{Matched: 1}, false, true, ""},
		"sent before, perhaps":      {unrecorded, false, false, "nothing was sent: 2 messages may have been sent before"},
		"to nowhere":                {gone, false, false, "2 messages would reach no queue"},
		"to nowhere, as asked":      {gone, true, false, ""},
		"all to nowhere":            {replayer.Plan{Matched: 2, Routes: gone.Routes}, false, false, "2 messages would reach no queue"},
		"the record is behind":      {unstored, false, true, "failures may have been handled or discarded in 4 events"},
		"somebody reads of it":      {unstored, false, false, ""},
		"and again is asked for":    {again, false, true, ""},
		"a process stores the rest": {replayer.Plan{Matched: 1, Log: replayer.Log{Events: 4, Consumers: 1}}, false, true, ""},
	} {
		err := CheckPlan(test.plan, test.unchecked, test.unattended)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestWarningsOfPlans(t *testing.T) {
	running := replayer.Rival{Running: true, Messages: 2, Job: replayer.Job{ID: "r", Operator: "bob"}}
	ended := replayer.Rival{Unrecorded: 3, Job: replayer.Job{ID: "e"}}
	for name, test := range map[string]struct {
		plan replayer.Plan
		want string // "": none
	}{
		"none":                {replayer.Plan{}, ""},
		"a rival, left out":   {replayer.Plan{Rivals: []replayer.Rival{running}}, ""},
		"a rival, and again":  {replayer.Plan{Job: replayer.Job{Again: true}, Rivals: []replayer.Rival{running}}, "job r of bob is sending to the same target now, and has 2 of these messages"},
		"an unrecorded rival": {replayer.Plan{Rivals: []replayer.Rival{ended}}, "the record of 3 messages that job e sent is not in the store yet"},
		"no serve":            {replayer.Plan{Log: replayer.Log{Events: 1}}, "no serve stores 1 event in the log"},
		"unreadable jobs":     {replayer.Plan{Unreadable: 2}, "2 jobs cannot be read"},
	} {
		got := strings.Join(PlanWarnings(test.plan), "|")
		if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// reported are the outcomes that calls find, one after the other.
type reported []Outcomes

func (r *reported) Do(_ context.Context, _ *operation.Operation, _, out any) error {
	out.(*OutcomesOutput).Body = (*r)[0]
	if len(*r) > 1 {
		*r = (*r)[1:]
	}
	return nil
}

func TestOutcomesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := reported{{}, {Handled: 1}, {Handled: 1, Failed: 1}}
		began := time.Now()
		got, err := AwaitOutcomes(t.Context(), &all, replayer.Job{Sent: 2}, time.Hour)
		if err != nil || got.Handled != 1 || got.Failed != 1 || time.Since(began) != 2*outcomesInterval {
			t.Errorf("%+v after %s, %v", got, time.Since(began), err)
		}
	})
}

func TestOutcomesThatDoNotComeAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none, began := reported{{Handled: 1}}, time.Now()
		got, err := AwaitOutcomes(t.Context(), &none, replayer.Job{Sent: 2}, time.Minute)
		if err != nil || got.Handled != 1 || time.Since(began) < time.Minute || time.Since(began) > time.Minute+2*outcomesInterval {
			t.Errorf("%+v after %s, %v", got, time.Since(began), err)
		}
	})
}

func TestAwaitingOutcomesEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := AwaitOutcomes(ctx, &reported{{}}, replayer.Job{Sent: 2}, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
