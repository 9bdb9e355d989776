package routes

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/routes/queuepolicy"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// set returns the operations on routes.
func (s site) set() *operation.Set {
	set := operation.NewLocal()
	Implement(set, s.Service)
	return set
}

// with returns a context of a caller with a role.
func with(t *testing.T, role access.Role) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: "ann", Role: role})
}

func TestAViewerChangesNoRoute(t *testing.T) {
	set, viewer := newSite(t, ordersAndInvoices).set(), with(t, access.Viewer)
	_, paused := PauseRoute.Call(viewer, set, PauseInput{Queue: "orders"})
	_, resumed := ResumeRoute.Call(viewer, set, ResumeRouteInput{Queue: "orders"})
	_, pausedAll := PauseAllRoutes.Call(viewer, set, PauseAllInput{})
	_, resumedAll := ResumeAllRoutes.Call(viewer, set, ResumeAllInput{})
	for what, err := range map[string]error{"pause": paused, "resume": resumed, "pause all": pausedAll, "resume all": resumedAll} {
		if p := problem.New(t.Context(), err); err == nil || p.GetStatus() != http.StatusForbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A policy is of the broker, whose other programs it concerns.
func TestAnOperatorChangesNoPolicies(t *testing.T) {
	set := newSite(t, ordersAndInvoices).set()
	for what, change := range map[string]operation.Declared[PolicyInput, PolicyOutput]{"add": AddRoute, "remove": RemoveRoute} {
		_, err := change.Call(with(t, access.Operator), set, *policyOf("invoices", dryRun))
		if err == nil || err.Error() != "ann has the role operator, and this needs admin" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Each error of the management API has the status and the remedy of what is wrong.
func TestProblemsOfPolicies(t *testing.T) {
	for name, test := range map[string]struct {
		err            error
		status         int
		detail, remedy string
	}{
		"a queue":   {&queuepolicy.RefusedError{Reason: "its dead letters go elsewhere", Remedy: "Move them."}, http.StatusConflict, "its dead letters go elsewhere", "Move them."},
		"a login":   {errors.New("not authorized"), http.StatusBadGateway, "not authorized", "Give the login of amqp.management_url the tag policymaker; see doctor."},
		"a mistake": {system.InputErrorf("no such queue"), http.StatusBadRequest, "no such queue", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := problem.New(t.Context(), policyProblem(t.Context(), test.err))
			if p.GetStatus() != test.status || p.Detail != test.detail || p.Remedy != test.remedy {
				t.Errorf("%d %q %q", p.GetStatus(), p.Detail, p.Remedy)
			}
		})
	}
}

// A server that does not answer says nothing about its login.
func TestAManagementAPIThatIsAway(t *testing.T) {
	var away *system.BrokerError
	if err := policyProblem(t.Context(), rabbit.ErrNoAnswer); !errors.As(err, &away) {
		t.Errorf("%v", err)
	}
}

func TestACallerThatHasGoneGetsNoProblem(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := policyProblem(ctx, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestACursorThatIsNone(t *testing.T) {
	_, err := operations{newSite(t).Service}.listQueues(as(t), &QueuesInput{Limit: 10, Cursor: "%"})
	if p := problem.New(t.Context(), err); err == nil || p.GetStatus() != http.StatusBadRequest {
		t.Errorf("%v", err)
	}
}

func TestQueuesNeedTheManagementAPI(t *testing.T) {
	s := Service{System: systemtest.New(t, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "WATERSHIP_AMQP_MANAGEMENT_URL=http://guest:guest@127.0.0.1:1")}
	_, err := operations{s}.listQueues(as(t), &QueuesInput{Limit: 10})
	var away *system.BrokerError
	if !errors.As(err, &away) {
		t.Errorf("%v", err)
	}
}

// A message waits while an earlier one of its key is an open failure: the store knows them by the field of the key.
func TestAnOrderedRouteAsksTheStore(t *testing.T) {
	s := newSite(t, `WATERSHIP_ROUTES=[{queue: orders, ordering: {class: later, key: "{headers.customer}"}, handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	open := Handlers(s.System).Routes[0].Ordering.Open
	if open == nil {
		t.Fatal("the store is not asked")
	}
	failed := schemas.Event{Action: schemas.Poisoned, Envelope: schemas.Envelope{Headers: map[string]any{"customer": "acme"}, Properties: schemas.Properties{MessageID: "m-1"}}}
	failed.Queue, failed.Failure.Message = "orders", "no stock"
	systemtest.Record(t, s.System, failed)
	earlier := func(schemas.Envelope, time.Time) bool { return true }
	for customer, want := range map[string]bool{"acme": true, "other": false} {
		if got, err := open(t.Context(), customer, "another message", earlier); err != nil || got != want {
			t.Errorf("%s: %t, %v", customer, got, err)
		}
	}
}
