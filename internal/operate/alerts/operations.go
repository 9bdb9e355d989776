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
)

// testTimeout bounds a test, in which each receiver has its own time.
const testTimeout = 2 * time.Minute

// The operations on alerts.
var (
	ListAlerts = operation.Declare[struct{}, ListOutput](operation.Operation{
		Method: http.MethodGet, Path: "/alerts", ID: "listAlerts", Tag: "alerts", Role: access.Viewer,
		Summary: "List the alerts that fire, with the state of rules and receivers",
		Text:    "Callers with limits get the alerts of their queues, and no rules and receivers.",
	})
	TestAlerts = operation.Declare[TestInput, TestOutput](operation.Operation{
		Method: http.MethodPost, Path: "/alerts/test", ID: "testAlerts", Tag: "alerts", Role: access.Operator, Timeout: testTimeout,
		Summary: "Send a notice that is marked as a test to a receiver, or to all",
	})
)

// operations are the functions of the operations.
type operations struct{ Service }

// Implement adds the operations on alerts to a set.
func Implement(set *operation.Set, service Service) {
	o := operations{service}
	operation.Implement(set, ListAlerts, o.list)
	operation.Implement(set, TestAlerts, o.test)
}

// ListOutput has the state of the alerts.
type ListOutput struct{ Body Alerts }

func (o operations) list(ctx context.Context, _ *struct{}) (*ListOutput, error) {
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
	return &ListOutput{v}, nil
}

// TestInput names a receiver to test.
type TestInput struct {
	operation.IdempotencyKey
	Body struct {
		Receiver string `json:"receiver,omitempty" maxLength:"100" doc:"Name of the receiver; none: all"`
	}
}

// TestOutput has the answers of receivers.
type TestOutput struct{ Body TestAnswers }

// TestAnswers are the answers of receivers to a test.
type TestAnswers struct {
	Answers []Answer `json:"answers" nullable:"false"`
}

func (o operations) test(ctx context.Context, in *TestInput) (*TestOutput, error) {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: "test alerts", Object: "receiver " + in.Body.Receiver})
	if caller.Limited() {
		return nil, problem.Forbidden(caller.Name+" is limited to some queues and exchanges, and receivers are for all", "Ask for a token without limits.")
	}
	answers, err := o.Test(ctx, in.Body.Receiver, caller.Name)
	return &TestOutput{TestAnswers{answers}}, err
}
