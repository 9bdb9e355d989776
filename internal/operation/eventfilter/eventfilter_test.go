package eventfilter_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// stored returns a system with a failure of each of two queues.
func stored(t *testing.T) *system.System {
	t.Helper()
	sys, _ := systemtest.Embedded(t)
	for _, queue := range []string{"orders", "mails"} {
		systemtest.Record(t, sys, schemas.Event{
			Action: schemas.Poisoned, Envelope: schemas.Envelope{Properties: schemas.Properties{MessageID: queue + "-1"}},
			State: schemas.State{Queue: queue, Message: "i-" + queue, Failure: schemas.Failure{Message: "no stock"}},
		})
	}
	return sys
}

// as returns a context of a caller that may use some queues; none: all.
func as(t *testing.T, queues ...string) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: "ann", Role: access.Operator, Queues: queues})
}

// queues returns the queues of the events that a filter finds for a caller.
func queues(t *testing.T, ctx context.Context, sys *system.System, f eventfilter.QueryFilter) []string {
	t.Helper()
	sel, err := f.Selection(ctx, sys)
	if err != nil {
		t.Fatal(err)
	}
	store, err := sys.Store(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for e, err := range store.Events(ctx, sel) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e.Queue)
	}
	slices.Sort(found)
	return found
}

func TestFilterFindsWhatTheCallerMaySee(t *testing.T) {
	sys := stored(t)
	for _, test := range []struct {
		ctx    context.Context
		filter eventfilter.Filter
		want   []string
	}{
		{as(t), eventfilter.Filter{}, []string{"mails", "orders"}},
		{as(t), eventfilter.Filter{Query: "*"}, []string{"mails", "orders"}},
		{as(t), eventfilter.Filter{Query: "queue: orders"}, []string{"orders"}},
		{as(t), eventfilter.Filter{Query: "queue: orders", Since: "1h"}, []string{"orders"}},
		{as(t), eventfilter.Filter{To: "2000-01-01", Zone: "Europe/Berlin"}, nil},
		{as(t, "mail*"), eventfilter.Filter{}, []string{"mails"}},
		{as(t, "mail*"), eventfilter.Filter{Query: "queue: orders"}, nil},
	} {
		if got := queues(t, test.ctx, sys, eventfilter.QueryFilter{Filter: test.filter}); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.filter, got, test.want)
		}
	}
}

func TestFiltersThatAreRefused(t *testing.T) {
	sys := stored(t)
	for name, test := range map[string]struct {
		filter eventfilter.QueryFilter
		status int
		detail string
	}{
		"an unknown zone":   {eventfilter.QueryFilter{Filter: eventfilter.Filter{Zone: "Europe/Atlantis"}}, http.StatusBadRequest, "zone"},
		"an unknown field":  {eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: "quue: orders"}}, http.StatusBadRequest, "quue"},
		"a time that is no": {eventfilter.QueryFilter{Filter: eventfilter.Filter{From: "soon"}}, http.StatusBadRequest, "from"},
		"bodies":            {eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: "body.text: secret"}}, http.StatusForbidden, "body.text"},
		"DSL":               {eventfilter.QueryFilter{DSL: `{"match_all":{}}`}, http.StatusForbidden, "bodies"},
	} {
		_, err := test.filter.Selection(as(t), sys)
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if p := problem.New(t.Context(), err); p.Status != test.status || !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%s: %d %s, want %d and %q", name, p.Status, p.Detail, test.status, test.detail)
		}
	}
}

// An operator with the logins of the servers may search bodies, which nothing records.
func TestOperatorsSearchBodies(t *testing.T) {
	ctx := access.NewContext(t.Context(), access.AsOperator("ann"))
	if got := queues(t, ctx, stored(t), eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: "body.text: secret"}}); got != nil {
		t.Errorf("%q", got)
	}
}

// Ids of messages that the caller may not see are as unknown as others.
func TestUnknownIDs(t *testing.T) {
	sys := stored(t)
	for _, test := range []struct {
		ctx  context.Context
		want []string
	}{
		{as(t), []string{"nothing"}},
		{as(t, "mails"), []string{"nothing", "orders-1"}},
	} {
		got, err := eventfilter.Unknown(test.ctx, sys, []string{"orders-1", "nothing", "mails-1", "nothing"})
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q, %v; want %q", got, err, test.want)
		}
	}
	if got, err := eventfilter.Unknown(as(t), sys, nil); err != nil || got == nil || len(got) > 0 {
		t.Errorf("no ids: %q, %v", got, err)
	}
}

func TestVisibleEvents(t *testing.T) {
	sys := stored(t)
	store, err := eventfilter.Visible(as(t, "mails"), sys)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range store.Events(t.Context(), eventstore.Selection{}) {
		if err != nil || e.Queue != "mails" {
			t.Errorf("%s, %v", e.Queue, err)
		}
	}
	for e, err := range store.Summaries(t.Context(), eventstore.Selection{}) {
		if err != nil || e.Queue != "mails" {
			t.Errorf("%s, %v", e.Queue, err)
		}
	}
	if _, err := eventfilter.ParseZone("zone", "+02:00"); err != nil {
		t.Error(err)
	}
	if _, err := eventfilter.ParseZone("zone", "nowhere"); !errors.As(err, new(*problem.Problem)) {
		t.Errorf("%v", err)
	}
}
