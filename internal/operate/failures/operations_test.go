package failures

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

const routesOfTests = `WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: "http://127.0.0.1:1/"}}}, {queue: mail, handler: {http: {url: "http://127.0.0.1:1/"}}}]`

// newService returns the failures of a System whose events are stored.
func newService(t *testing.T) (Service, rabbittest.Broker) {
	t.Helper()
	t.Parallel() // most of it is waiting
	sys, broker := systemtest.Embedded(t, routesOfTests)
	systemtest.Index(t, sys)
	return Service{sys}, broker
}

// newStored returns the failures of a System whose events no process stores.
func newStored(t *testing.T, events ...schemas.Event) Service {
	t.Helper()
	t.Parallel() // most of it is waiting
	sys, _ := systemtest.Embedded(t, routesOfTests)
	systemtest.Record(t, sys, events...)
	return Service{sys}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// failed is the permanent failure of a message, whose body is its id, at a queue.
func failed(queue, id, class string) schemas.Event {
	e := schemas.Event{Action: schemas.Poisoned, Envelope: schemas.Envelope{
		Body: []byte(id), Properties: schemas.Properties{MessageID: id}, Headers: amqp.Table{"tenant": "tenant-" + id},
	}}
	e.EventID, e.Queue, e.Failure = "failure-"+id, queue, schemas.Failure{Message: "no stock", Class: class}
	e.Fingerprint = e.Envelope.Fingerprint()
	return e
}

// groupOf is the id of the group of failures of a class at a queue.
func groupOf(queue, class string) string {
	return history.Kind{Queue: queue, Class: class, Group: "no stock"}.ID()
}

// as returns a context of a caller that may use some queues; none: all.
func as(t *testing.T, queues ...string) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: "ann", Role: access.Admin, Bodies: true, Queues: queues})
}

func wantStatus(t *testing.T, err error, status int, detail string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want the status %d and %q", status, detail)
		return
	}
	if p := problem.New(t.Context(), err); p.GetStatus() != status || !strings.Contains(p.Detail, detail) {
		t.Errorf("%v, want the status %d and %q", err, status, detail)
	}
}

// list returns the page of groups of a caller.
func (s Service) list(t *testing.T, ctx context.Context, in GroupsInput) GroupPage {
	t.Helper()
	if in.Limit == 0 {
		in.Limit = 100
	}
	out, err := operations{s}.list(ctx, &in)
	must(t, err)
	return out.Body
}

// ids returns the ids of the groups of a page.
func (p GroupPage) ids() (list []string) {
	for _, g := range p.Groups {
		list = append(list, g.ID)
	}
	return list
}

func TestFailuresAreGroupedByQueueAndError(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("orders", "b", "x"), failed("orders", "c", "y"), failed("mail", "d", "x"))
	page := s.list(t, as(t), GroupsInput{})
	if page.Failures != 4 || len(page.Groups) != 3 || page.Groups[0].ID != groupOf("orders", "x") || page.Groups[0].Count != 2 {
		t.Errorf("%+v", page)
	}
	if diff := cmp.Diff(map[string]int{"orders": 3, "mail": 1}, page.Queues); diff != "" {
		t.Error(diff)
	}
}

func TestAMessageWhoseReplayWasHandledHasNoFailure(t *testing.T) {
	handled := failed("orders", "a", "x")
	handled.EventID, handled.Action, handled.Failure = "handled", schemas.Handled, schemas.Failure{}
	handled.ReplayOf = "failure-a"
	if page := newStored(t, failed("orders", "a", "x"), handled).list(t, as(t), GroupsInput{}); page.Failures != 0 || len(page.Groups) != 0 {
		t.Errorf("%+v", page)
	}
}

// The consumer of a route without a handler reports nothing.
func TestAReplayToARouteWithoutAHandlerResolvesAFailure(t *testing.T) {
	sys, _ := systemtest.Embedded(t, `WATERSHIP_ROUTES=[{queue: foreign}, {queue: orders, handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	for _, queue := range []string{"foreign", "orders"} {
		of := failed(queue, queue, "x")
		replayed := of
		replayed.EventID, replayed.Action, replayed.Failure, replayed.ReplayOf = "replay-"+queue, schemas.Replayed, schemas.Failure{}, of.EventID
		systemtest.Record(t, sys, of, replayed)
	}
	if got := (Service{sys}).list(t, as(t), GroupsInput{}).ids(); !slices.Equal(got, []string{groupOf("orders", "x")}) {
		t.Errorf("%q", got)
	}
}

func TestGroupsOfAQuery(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("mail", "b", "x"))
	in := GroupsInput{}
	in.Query = "queue: mail"
	if got := s.list(t, as(t), in).ids(); !slices.Equal(got, []string{groupOf("mail", "x")}) {
		t.Errorf("%q", got)
	}
}

func TestCallersSeeTheGroupsOfTheirQueues(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("mail", "b", "x"))
	if got := s.list(t, as(t, "mail"), GroupsInput{}).ids(); !slices.Equal(got, []string{groupOf("mail", "x")}) {
		t.Errorf("%q", got)
	}
	o := operations{s}
	if out, err := o.get(as(t, "mail"), &GroupInput{Group: groupOf("mail", "x")}); err != nil || out.Body.Count != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	_, err := o.get(as(t, "mail"), &GroupInput{Group: groupOf("orders", "x")})
	wantStatus(t, err, http.StatusNotFound, "no group of failures has the id")
}

func TestGroupsComeInPages(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("orders", "b", "y"), failed("orders", "c", "z"))
	all := s.list(t, as(t), GroupsInput{}).ids()
	first := s.list(t, as(t), GroupsInput{Limit: 2})
	second := s.list(t, as(t), GroupsInput{Limit: 2, Cursor: first.Cursor})
	if got := append(first.ids(), second.ids()...); !slices.Equal(got, all) || len(all) != 3 || second.Cursor != "" {
		t.Errorf("%q, want %q", got, all)
	}
	if first.Failures != 3 || second.Failures != 3 {
		t.Errorf("a page counts the failures of all pages: %d, %d", first.Failures, second.Failures)
	}
	for _, cursor := range []string{"x", "-1"} {
		_, err := operations{s}.list(as(t), &GroupsInput{Limit: 2, Cursor: cursor})
		wantStatus(t, err, http.StatusBadRequest, "the cursor cannot be read")
	}
}

func TestGroupsByTheirNewestFailure(t *testing.T) {
	old, recent := failed("orders", "a", "x"), failed("orders", "b", "y")
	old.Time, recent.Time = time.Now().Add(-time.Hour), time.Now()
	more := old
	more.EventID, more.Envelope.Body, more.Fingerprint = "more", []byte("more"), ""
	s := newStored(t, old, more, recent)
	for sort, want := range map[string]string{"count": groupOf("orders", "x"), "last": groupOf("orders", "y")} {
		if got := s.list(t, as(t), GroupsInput{Sort: sort}).ids(); got[0] != want {
			t.Errorf("%s: %q", sort, got)
		}
	}
}

// decide records a decision about a group.
func (s Service) decide(t *testing.T, ctx context.Context, group string, d GroupDecision) (GroupDecided, error) {
	t.Helper()
	out, err := operations{s}.triage(ctx, &TriageInput{Group: group, Body: d})
	if err != nil {
		return GroupDecided{}, err
	}
	return out.Body, nil
}

func TestMutedGroupsAreLeftOut(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"), failed("orders", "b", "y"))
	decided, err := s.decide(t, as(t), groupOf("orders", "x"), GroupDecision{Decision: Muted, Until: time.Now().Add(time.Hour), Reason: "closed"})
	if err != nil || decided.Unchanged || decided.Missing != 0 {
		t.Fatalf("%+v, %v", decided, err)
	}
	page := s.list(t, as(t), GroupsInput{})
	if page.Muted != 1 || page.Failures != 1 || !slices.Equal(page.ids(), []string{groupOf("orders", "y")}) {
		t.Errorf("%+v", page)
	}
	if page := s.list(t, as(t), GroupsInput{Muted: true}); len(page.Groups) != 2 || page.Muted != 0 {
		t.Errorf("%+v", page)
	}
}

func TestADecisionIsOfItsOperator(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"))
	group := groupOf("orders", "x")
	_, err := s.decide(t, as(t), group, GroupDecision{Decision: Noted, Reason: "OPS-12"})
	must(t, err)
	_, err = s.decide(t, as(t), group, GroupDecision{Decision: Assigned, Assignee: "bob"})
	must(t, err)
	g, err := s.Find(t.Context(), group, kql.All{})
	if err != nil || g.Assignee != "bob" || len(g.Notes) != 1 || g.Notes[0].Text != "OPS-12" || g.Notes[0].By != "ann" {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestADecisionThatChangesNothingIsNotRecorded(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x")) // without an exchange for events
	for _, d := range []GroupDecision{{Decision: Unmuted}, {Decision: Unassigned}} {
		if decided, err := s.decide(t, as(t), groupOf("orders", "x"), d); err != nil || !decided.Unchanged {
			t.Errorf("%s: %+v, %v", d.Decision, decided, err)
		}
	}
}

func TestWhyADecisionChangesNothing(t *testing.T) {
	for want, c := range map[string]Change{
		"is not muted": {Decision: Unmuted}, "is assigned to bob": {Decision: Assigned, Assignee: " bob "}, "has no assignee": {Decision: Unassigned},
	} {
		if got := c.WhyUnchanged(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if c.Changes(State{Assignee: map[bool]string{true: "bob"}[c.Decision == Assigned]}) {
			t.Errorf("%s changes something", c.Decision)
		}
	}
}

func TestDecisionsThatAreRefused(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	group := groupOf("orders", "x")
	_, err := s.decide(t, as(t), "nobody", GroupDecision{Decision: Noted, Reason: "x"})
	wantStatus(t, err, http.StatusNotFound, "nobody")
	_, err = s.decide(t, as(t, "mail"), group, GroupDecision{Decision: Noted, Reason: "x"})
	wantStatus(t, err, http.StatusNotFound, group) // it is invisible
	var input system.InputError
	if _, err := s.decide(t, as(t), group, GroupDecision{Decision: Muted, Reason: "x"}); !errors.As(err, &input) {
		t.Errorf("%v", err)
	}
}

// resolve resolves failures for a caller.
func (s Service) resolve(ctx context.Context, r Resolve) (GroupsResolved, error) {
	out, err := operations{s}.resolve(ctx, &ResolveInput{Body: r})
	if err != nil {
		return GroupsResolved{}, err
	}
	return out.Body, nil
}

func TestResolveAGroup(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"), failed("orders", "b", "x"), failed("orders", "c", "y"))
	group := groupOf("orders", "x")
	got, err := s.resolve(as(t), Resolve{Groups: []string{group}, Bounds: operation.Bounds{Reason: "fixed"}})
	if err != nil || got.Matched != 2 || got.Done != 2 || got.Missing != 0 || !slices.Equal(got.Resolved, []string{group}) || len(got.Open) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if page := s.list(t, as(t), GroupsInput{}); !slices.Equal(page.ids(), []string{groupOf("orders", "y")}) {
		t.Errorf("%+v", page)
	}
	g, err := s.Find(t.Context(), group, kql.All{})
	if err != nil || g.Resolved == nil || g.Resolved.By != "ann" || g.Resolved.Reason != "fixed" || g.Count != 0 {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestAFailureBringsItsGroupBack(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"))
	group := groupOf("orders", "x")
	_, err := s.resolve(as(t), Resolve{Groups: []string{group}, Bounds: operation.Bounds{Reason: "fixed"}})
	must(t, err)
	systemtest.Record(t, s.System, failed("orders", "b", "x"))
	if page := s.list(t, as(t), GroupsInput{}); len(page.Groups) != 1 || page.Groups[0].Count != 1 || page.Groups[0].Resolved == nil {
		t.Errorf("%+v", page)
	}
}

// A group of which some failures are left is not resolved.
func TestAGroupWithOtherFailuresStaysOpen(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"), failed("orders", "b", "x"))
	r := Resolve{Bounds: operation.Bounds{Reason: "fixed"}}
	r.Query = "message.id: a"
	got, err := s.resolve(as(t), r)
	if err != nil || got.Done != 1 || len(got.Resolved) != 0 || !slices.Equal(got.Open, []string{groupOf("orders", "x")}) {
		t.Errorf("%+v, %v", got, err)
	}
	if page := s.list(t, as(t), GroupsInput{}); page.Failures != 1 {
		t.Errorf("%+v", page)
	}
}

func TestADryRunResolvesNothing(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("orders", "b", "x"))
	got, err := s.resolve(as(t), Resolve{Groups: []string{groupOf("orders", "x")}, Bounds: operation.Bounds{DryRun: true}})
	if err != nil || got.Matched != 2 || got.Done != 0 || got.UpTo == 0 || len(got.Groups) != 1 || got.Groups[0].Count != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if page := s.list(t, as(t), GroupsInput{}); page.Failures != 2 {
		t.Errorf("%+v", page)
	}
}

// Failures that came after a dry run are not what its reader has seen.
func TestLaterFailuresAreNotResolved(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	dry, err := s.resolve(as(t), Resolve{Groups: []string{groupOf("orders", "x")}, Bounds: operation.Bounds{DryRun: true}})
	must(t, err)
	systemtest.Record(t, s.System, failed("orders", "b", "x"))
	got, err := s.resolve(as(t), Resolve{Groups: []string{groupOf("orders", "x")}, Choice: eventfilter.Choice{UpTo: dry.UpTo}, Bounds: operation.Bounds{DryRun: true}})
	if err != nil || got.Matched != 1 || got.UpTo != dry.UpTo {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestResolvesThatAreRefused(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	one, group := 2, groupOf("orders", "x")
	for name, test := range map[string]struct {
		ctx     context.Context
		request Resolve
		status  int
		detail  string
	}{
		"no selection":   {as(t), Resolve{Bounds: operation.Bounds{Reason: "x"}}, http.StatusBadRequest, "expected query, dsl, ids or groups"},
		"no reason":      {as(t), Resolve{Groups: []string{group}}, http.StatusUnprocessableEntity, ""},
		"another number": {as(t), Resolve{Groups: []string{group}, Bounds: operation.Bounds{Reason: "x", Expect: &one}}, http.StatusConflict, "1 failure matches, 2 expected: nothing was changed"},
		"an unknown id":  {as(t), Resolve{Groups: []string{"nobody"}, Bounds: operation.Bounds{Reason: "x"}}, http.StatusNotFound, "nobody"},
		"of others":      {as(t, "mail"), Resolve{Groups: []string{group}, Bounds: operation.Bounds{Reason: "x"}}, http.StatusNotFound, group},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.resolve(test.ctx, test.request)
			wantStatus(t, err, test.status, test.detail)
		})
	}
}

// Parked copies stay in their queue, which the result names.
func TestParkedCopiesAreNamed(t *testing.T) {
	s, broker := newService(t)
	channel := broker.Channel(t)
	_, err := channel.QueueDeclare("orders.poison", true, false, false, false, nil)
	must(t, err)
	must(t, channel.Publish("", "orders.poison", false, false, amqp.Publishing{}))
	rabbittest.Eventually(t, "the copy is parked", func() bool { return broker.Len(t, "orders.poison") == 1 })
	systemtest.Record(t, s.System, failed("orders", "a", "x"), failed("mail", "b", "x"))
	r := Resolve{Bounds: operation.Bounds{DryRun: true}}
	r.Query = "*"
	got, err := s.resolve(as(t), r)
	must(t, err)
	if diff := cmp.Diff([]ParkedCopies{{"orders.poison", 1}}, got.Parked); diff != "" {
		t.Error(diff)
	}
}

// A preview needs the store alone. Without RabbitMQ, it names no queues with parked copies.
func TestPreviewsWithoutABroker(t *testing.T) {
	path := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	sys := systemtest.New(t, routesOfTests, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "WATERSHIP_STORE_URL="+path)
	store, err := sys.Store(t.Context())
	must(t, err)
	must(t, store.Install(t.Context()))
	systemtest.Record(t, sys, failed("orders", "a", "x"), failed("mail", "b", "x"))
	o := operations{Service{sys}}
	discard := DiscardInput{Body: Discard{Bounds: operation.Bounds{DryRun: true}}}
	discard.Body.Query = "*"
	if out, err := o.discardFailures(as(t), &discard); err != nil || out.Body.Matched != 2 || out.Body.Parked == nil || len(out.Body.Parked) > 0 {
		t.Errorf("a discard: %+v, %v", out, err)
	}
	resolve := ResolveInput{Body: Resolve{Bounds: operation.Bounds{DryRun: true}}}
	resolve.Body.Query = "*"
	if out, err := o.resolve(as(t), &resolve); err != nil || out.Body.Matched != 2 || out.Body.Parked == nil || len(out.Body.Parked) > 0 {
		t.Errorf("a resolution: %+v, %v", out, err)
	}
	discard.Body.DryRun, discard.Body.Reason = false, "x"
	if _, err := o.discardFailures(as(t), &discard); problem.New(t.Context(), err).Status != http.StatusServiceUnavailable {
		t.Errorf("a discard that acts: %v", err)
	}
}

func TestDiscardedFailuresAreResolved(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"), failed("mail", "b", "x"), failed("mail", "c", "x"))
	ids := []string{"failure-a", "failure-b"}
	done, err := discardAll(t.Context(), s.System, ids, reason.Decision{Operator: "ann", Reason: "obsolete"})
	if err != nil || done.Failures != 2 || !slices.Equal(done.Queues, []string{"mail", "orders"}) {
		t.Errorf("%+v, %v", done, err)
	}
	if missing, err := awaitDiscarded(t.Context(), s.System, ids); err != nil || missing != 0 {
		t.Errorf("%d, %v", missing, err)
	}
	if page := s.list(t, as(t), GroupsInput{}); page.Failures != 1 || page.Queues["mail"] != 1 {
		t.Errorf("%+v", page)
	}
}

// by returns the failures of a caller by fields.
func (s Service) by(t *testing.T, ctx context.Context, query string, fields ...string) (FailuresBy, error) {
	t.Helper()
	in := &ByInput{Fields: fields}
	in.Query = query
	out, err := operations{s}.listBy(ctx, in)
	if err != nil {
		return FailuresBy{}, err
	}
	return out.Body, nil
}

func TestFailuresByFields(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("orders", "b", "x"), failed("mail", "c", "y"))
	got, err := s.by(t, as(t), "", "queue", "class")
	must(t, err)
	if got.Failures != 3 || got.Total != 2 || !slices.Equal(got.Fields, []string{"watership.queue", "watership.class"}) {
		t.Errorf("%+v", got)
	}
	if first := got.Groups[0]; first.Count != 2 || !slices.Equal(first.Values, []string{"orders", "x"}) || first.Example != "b" || first.First.After(first.Last) {
		t.Errorf("%+v", first)
	}
}

func TestFailuresWithoutAFieldAreAGroup(t *testing.T) {
	without := failed("orders", "a", "x")
	without.Envelope.Headers, without.Fingerprint = nil, ""
	got, err := newStored(t, without, failed("orders", "b", "x")).by(t, as(t), "", "headers.tenant")
	must(t, err)
	var values []string
	for _, g := range got.Groups {
		values = append(values, g.Values...)
	}
	if slices.Sort(values); !slices.Equal(values, []string{"", "tenant-b"}) {
		t.Errorf("%q", values)
	}
}

func TestFailuresByFieldsOfAQuery(t *testing.T) {
	got, err := newStored(t, failed("orders", "a", "x"), failed("mail", "b", "x")).by(t, as(t), "queue: mail", "queue")
	if err != nil || got.Failures != 1 || got.Groups[0].Values[0] != "mail" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFieldsThatFailuresCannotBeGroupedBy(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	for want, fields := range map[string][]string{
		"expected one to 5 fields":                          {},
		"expected fields, such as headers.tenant,queue":     {" "},
		"watership.queue is given twice":                    {"queue", "watership.queue"},
		"expected the name of one field, without wildcards": {"headers.*"},
		"has texts, and failures cannot be grouped by it":   {"error.message"},
		"colour": {"colour"},
	} {
		_, err := s.by(t, as(t), "", fields...)
		var input system.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", fields, err, want)
		}
	}
	if _, err := s.by(t, as(t), "", "queue", "class", "error.type", "event.action", "message.id", "headers.a"); err == nil {
		t.Error("six fields are too many")
	}
}
