package routes

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// as returns a context of a caller that may use some queues; none: all.
func as(t *testing.T, queues ...string) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: "ann", Role: access.Admin, Queues: queues})
}

// isForbidden reports whether an error is a problem of the status 403.
func isForbidden(err error) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.GetStatus() == http.StatusForbidden
}

func TestCallersSeeTheRoutesOfTheirQueues(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	for name, test := range map[string]struct {
		ctx  context.Context
		want []string
	}{
		"no limits": {as(t), []string{"orders", "invoices"}}, "one queue": {as(t, "inv*"), []string{"invoices"}}, "none": {t.Context(), nil},
	} {
		out, err := operations{s.Service}.listRoutes(test.ctx, &RoutesInput{})
		must(t, err)
		var got []string
		for _, route := range out.Body.Routes {
			got = append(got, route.Queue)
		}
		if !slices.Equal(got, test.want) || out.Body.Problem != "" {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestCallersNeedTheQueueOfARoute(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	o, limited := operations{s.Service}, as(t, "invoices")
	pausing := &PauseInput{Queue: "orders"}
	pausing.Body.Reason = "x"
	pausingAll := &PauseAllInput{}
	pausingAll.Body.Reason = "x"
	for name, do := range map[string]func() error{
		"pause":      func() error { _, err := o.pauseRoute(limited, pausing); return err },
		"resume":     func() error { _, err := o.resumeRoute(limited, &ResumeRouteInput{Queue: "orders"}); return err },
		"pause all":  func() error { _, err := o.pauseAll(limited, pausingAll); return err },
		"resume all": func() error { _, err := o.resumeAll(limited, &ResumeAllInput{}); return err },
		"add":        func() error { _, err := o.addRoute(limited, &PolicyInput{Queue: "orders"}); return err },
		"remove":     func() error { _, err := o.removeRoute(limited, &PolicyInput{Queue: "orders"}); return err },
	} {
		if err := do(); !isForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.all(t)["orders"]; got.State == "paused" {
		t.Errorf("%+v", got)
	}
}

func TestOperationsPauseAndResume(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	o := operations{s.Service}
	pausing := &PauseInput{Queue: "orders"}
	pausing.Body.Reason = "night"
	paused, err := o.pauseRoute(as(t, "orders"), pausing)
	if err != nil || !paused.Body.Paused || paused.Body.Queue != "orders" {
		t.Errorf("%+v, %v", paused, err)
	}
	resumed, err := o.resumeRoute(as(t, "orders"), &ResumeRouteInput{Queue: "orders"})
	if err != nil || resumed.Body.Resumed != (Resumed{Changed: true}) {
		t.Errorf("%+v, %v", resumed, err)
	}
	pausing.Body.Reason = "all"
	if _, err := o.pauseAll(as(t), &pausing.PauseAllInput); err != nil {
		t.Error(err)
	}
	all, err := o.resumeAll(as(t), &ResumeAllInput{})
	if err != nil || !all.Body.Changed {
		t.Errorf("%+v, %v", all, err)
	}
}

// A dry run names the routes that would be paused or resumed, and another number than expected
// changes nothing.
func TestRoutesThatWouldBePaused(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	o, dry, three := operations{s.Service}, operation.Bounds{DryRun: true}, 3
	wants := func(name string, found RoutesFound, err error, queues ...string) {
		t.Helper()
		if err != nil || *found.Matched != len(queues) || !slices.Equal(found.Routes, queues) {
			t.Errorf("%s: %+v, %v, want %q", name, found, err, queues)
		}
	}
	all, one := &PauseAllInput{}, &PauseInput{Queue: "orders"}
	all.Body.Bounds, one.Body.Bounds = dry, dry
	resumeAll, resumeOne := &ResumeAllInput{Body: &RoutesRequest{dry}}, &ResumeRouteInput{Queue: "orders"}
	resumeOne.Body = &RoutesRequest{dry}
	paused, err := o.pauseAll(as(t), all)
	must(t, err)
	wants("pause all", paused.Body.RoutesFound, err, "orders") // the other is that of another program
	first, err := o.pauseRoute(as(t), one)
	must(t, err)
	wants("pause", first.Body.RoutesFound, err, "orders")
	again, err := o.resumeRoute(as(t), resumeOne)
	must(t, err)
	wants("resume", again.Body.RoutesFound, err)
	if got := s.all(t)["orders"]; got.State == "paused" || paused.Body.Paused || first.Body.Paused {
		t.Errorf("a dry run has paused %+v", got)
	}
	all.Body.Bounds = operation.Bounds{Reason: "night", Expect: &three}
	_, err = o.pauseAll(as(t), all)
	var p *problem.Problem
	if !errors.As(err, &p) || p.Detail != "1 route matches, 3 expected: nothing was changed" {
		t.Errorf("%v", err)
	}
	*all.Body.Expect = 1
	_, err = o.pauseAll(as(t), all)
	must(t, err)
	resumed, err := o.resumeAll(as(t), resumeAll)
	must(t, err)
	wants("resume all", resumed.Body.RoutesFound, err, "orders")
	if resumed.Body.Changed || !s.all(t)["orders"].WithAll {
		t.Errorf("a dry run has resumed all: %+v", resumed.Body)
	}
}

// queuesOf returns the names of the queues of all pages.
func queuesOf(t *testing.T, s site, ctx context.Context, limit int) (pages int, names []string) {
	t.Helper()
	for in := (&QueuesInput{Limit: limit}); ; pages++ {
		out, err := operations{s.Service}.listQueues(ctx, in)
		must(t, err)
		for _, q := range out.Body.Queues {
			names = append(names, q.Name)
		}
		if in.Cursor = out.Body.Cursor; strings.Contains(in.Cursor, ".") {
			t.Errorf("the cursor %q is the name of a queue", in.Cursor)
		}
		if in.Cursor == "" {
			return pages + 1, names
		}
	}
}

func TestQueuesComeInPages(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	_, all := queuesOf(t, s, as(t), 1000)
	if len(all) < 10 || !slices.IsSorted(all) || !slices.Contains(all, "orders") {
		t.Fatalf("%q", all)
	}
	pages, paged := queuesOf(t, s, as(t), 3)
	if !slices.Equal(paged, all) || pages != (len(all)+2)/3 {
		t.Errorf("%d pages with %q, want %q", pages, paged, all)
	}
}

func TestCallersSeeTheirQueues(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	if _, got := queuesOf(t, s, as(t, "ord*"), 1000); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("%q", got)
	}
	if _, got := queuesOf(t, s, t.Context(), 1000); got != nil {
		t.Errorf("%q", got)
	}
}

func TestOwnQueuesAreMarked(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	out, err := operations{s.Service}.listQueues(as(t), &QueuesInput{Limit: 1000})
	must(t, err)
	for _, q := range out.Body.Queues {
		if own := strings.HasPrefix(q.Name, "watership."); q.Own != own || !q.Available || q.Type == "" {
			t.Errorf("%+v", q)
		}
	}
}

var dryRun = PolicyRequest{Bounds: operation.Bounds{DryRun: true}}

// policyOf asks for a change of the policies of a queue.
func policyOf(queue string, request PolicyRequest) *PolicyInput {
	return &PolicyInput{Queue: queue, Body: request}
}

func TestAddingARouteGivesAQueueTheDeadLetterExchange(t *testing.T) {
	s := newSite(t)
	s.declare(t, "invoices", nil)
	out, err := operations{s.Service}.addRoute(as(t), policyOf("invoices", PolicyRequest{}))
	if err != nil || !out.Body.Done || out.Body.Save == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	management, err := s.System.Management()
	must(t, err)
	queue, err := management.Queue(t.Context(), "/", "invoices")
	must(t, err)
	if exchange, has := queue.DeadLetterExchange(); !has || exchange != s.System.Topology().Retry() {
		t.Errorf("%q", exchange)
	}
	if got := s.all(t)["invoices"]; !got.Foreign {
		t.Errorf("it is the queue of another program: %+v", got)
	}
}

func TestRemovingARouteUndoesIt(t *testing.T) {
	s := newSite(t)
	s.declare(t, "invoices", nil)
	o := operations{s.Service}
	_, err := o.addRoute(as(t), policyOf("invoices", PolicyRequest{}))
	must(t, err)
	out, err := o.removeRoute(as(t), policyOf("invoices", PolicyRequest{}))
	if err != nil || !out.Body.Done || out.Body.Delete == "" {
		t.Errorf("%+v, %v", out, err)
	}
	if all := s.all(t); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	_, err = o.removeRoute(as(t), policyOf("invoices", PolicyRequest{}))
	var p *problem.Problem
	if !errors.As(err, &p) || p.GetStatus() != http.StatusConflict || !strings.Contains(p.Detail, "there is no policy") {
		t.Errorf("%v", err)
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	s := newSite(t)
	s.declare(t, "invoices", nil)
	out, err := operations{s.Service}.addRoute(as(t), policyOf("invoices", dryRun))
	if err != nil || out.Body.Done || out.Body.Save == nil || out.Body.Matched != 1 || out.Body.Digest == "" {
		t.Errorf("%+v, %v", out, err)
	}
	if all := s.all(t); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// A change that somebody has looked at is made, or none.
func TestAnotherChangeThanExpectedIsNotMade(t *testing.T) {
	s := newSite(t)
	s.declare(t, "invoices", nil)
	o := operations{s.Service}
	_, err := o.addRoute(as(t), policyOf("invoices", PolicyRequest{Digest: "another"}))
	var p *problem.Problem
	if !errors.As(err, &p) || p.GetStatus() != http.StatusConflict || !strings.Contains(p.Detail, "have changed in the meantime: nothing was changed") {
		t.Errorf("%v", err)
	}
	dry, err := o.addRoute(as(t), policyOf("invoices", dryRun))
	must(t, err)
	two := 2
	_, err = o.addRoute(as(t), policyOf("invoices", PolicyRequest{Bounds: operation.Bounds{Expect: &two}, Digest: dry.Body.Digest}))
	if !errors.As(err, &p) || p.Code != code.ExpectMismatch || !strings.Contains(p.Detail, "1 queue matches, 2 expected: nothing was changed") {
		t.Errorf("%v", err)
	}
	out, err := o.addRoute(as(t), policyOf("invoices", PolicyRequest{Bounds: operation.Bounds{Expect: &dry.Body.Matched}, Digest: dry.Body.Digest}))
	if err != nil || !out.Body.Done {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAQueueWhoseDeadLettersGoElsewhereIsRefused(t *testing.T) {
	s := newSite(t)
	s.declare(t, "invoices", map[string]any{"x-dead-letter-exchange": "amq.fanout"})
	_, err := operations{s.Service}.addRoute(as(t), policyOf("invoices", dryRun))
	var p *problem.Problem
	if !errors.As(err, &p) || p.GetStatus() != http.StatusConflict || p.Remedy == "" || !strings.Contains(p.Detail, "amq.fanout") {
		t.Errorf("%v", err)
	}
}

// A route with a handler needs no policy for what its handler fails.
func TestAddingARouteOfTheConfigurationHasANote(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	for queue, noted := range map[string]bool{"orders": true, "theirs": false} {
		s.declare(t, "theirs", nil)
		change, err := Policies{s.System}.Plan(t.Context(), queue, Add)
		must(t, err)
		if got := slices.ContainsFunc(change.Notes, func(n string) bool { return strings.Contains(n, "retries its messages without a policy") }); got != noted {
			t.Errorf("%s: %q", queue, change.Notes)
		}
	}
}
