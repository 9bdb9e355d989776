package alerts

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// operations are the operations of the HTTP API.
type operations struct{ Service }

// testTimeout bounds a test, in which each receiver has its own time.
const testTimeout = 2 * time.Minute

// Register adds the operations on alerts to an API.
func Register(set *operation.Set, a *system.System) {
	o := operations{Service{a}}
	operation.Register(set, operation.Operation{
		Method: http.MethodGet, Path: "/alerts", ID: "listAlerts", Tag: "alerts", Role: access.Viewer,
		Summary: "List the alerts that fire, with the state of rules and receivers",
		Text:    "Callers with limits get the alerts of their queues, and no rules and receivers.",
	}, o.list)
	operation.Register(set, operation.Operation{
		Method: http.MethodPost, Path: "/alerts/test", ID: "testAlerts", Tag: "alerts", Role: access.Operator, Timeout: testTimeout,
		Summary: "Send a notice that is marked as a test to a receiver, or to all",
	}, o.test)
}

type listOutput struct{ Body Alerts }

// Alerts is the state of the alerts.
type Alerts View

func (o operations) list(ctx context.Context, _ *struct{}) (*listOutput, error) {
	v, err := o.List(ctx)
	if err != nil {
		return nil, err
	}
	if caller := access.FromContext(ctx); caller.Limited() {
		v.Rules, v.Receivers = []Rule{}, []Receiver{}
		v.Alerts = slices.DeleteFunc(v.Alerts, func(item notice.Item) bool {
			queue, is := item.Labels["queue"]
			return !is || len(caller.Queues) == 0 || !caller.MayQueue(queue)
		})
	}
	return &listOutput{Alerts(v)}, nil
}

type testInput struct {
	operation.IdempotencyKey
	Body struct {
		Receiver string `json:"receiver,omitempty" maxLength:"100" doc:"Name of the receiver; none: all"`
	}
}

type testOutput struct{ Body TestAnswers }

// TestAnswers are the answers of receivers to a test.
type TestAnswers struct {
	Answers []Answer `json:"answers" nullable:"false"`
}

func (o operations) test(ctx context.Context, in *testInput) (*testOutput, error) {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: "test alerts", Object: "receiver " + in.Body.Receiver})
	if caller.Limited() {
		return nil, problem.Forbidden(caller.Name+" is limited to some queues and exchanges, and receivers are for all", "Ask for a token without limits.")
	}
	answers, err := o.Test(ctx, in.Body.Receiver, caller.Name)
	return &testOutput{TestAnswers{answers}}, err
}
