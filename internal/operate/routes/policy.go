package routes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/routes/queuepolicy"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
)

// PolicyAction is a change of the policies of a queue.
type PolicyAction string

// The actions.
const (
	Add    PolicyAction = "add"    // retries for what its consumer rejects
	Remove PolicyAction = "remove" // of what Add has added
)

// PolicyChange is a planned change of the policies of a queue.
type PolicyChange struct {
	queuepolicy.Change
	Matched int    `json:"matched" doc:"Number of queues whose policies change: 1, or 0 if nothing is to be changed"`
	Digest  string `json:"digest" doc:"Of this change: a request with it and matched, as expect, makes this change, or none"`
	Done    bool   `json:"done" doc:"RabbitMQ has applied it to the queue"`
}

// Policies changes the policies of queues, by the management API of a System.
type Policies struct{ System *system.System }

// Plan returns the change of an action. It changes nothing.
func (p Policies) Plan(ctx context.Context, queue string, action PolicyAction) (PolicyChange, error) {
	editor, err := p.editor(ctx)
	if err != nil {
		return PolicyChange{}, err
	}
	plan := editor.Add
	if action == Remove {
		plan = editor.Remove
	}
	change, err := plan(ctx, queue)
	if err != nil {
		return PolicyChange{}, err
	}
	if action == Add && p.consumes(queue) {
		change.Notes = append(change.Notes, fmt.Sprintf("a route of the configuration consumes queue %s, and retries its messages without a policy: "+
			"only those that other consumers of the queue reject need one", queue))
	}
	content, err := json.Marshal(change)
	planned := PolicyChange{Change: change, Digest: idempotency.Digest(string(content))}
	if change.Save != nil || change.Delete != "" {
		planned.Matched = 1
	}
	return planned, err
}

// Apply makes a change and returns when RabbitMQ has applied it to the queue.
func (p Policies) Apply(ctx context.Context, c PolicyChange) error {
	editor, err := p.editor(ctx)
	if err != nil {
		return err
	}
	return editor.Apply(ctx, c.Change)
}

// consumes reports whether a route of the configuration handles the messages of a queue.
func (p Policies) consumes(queue string) bool {
	return slices.ContainsFunc(p.System.Settings().Routes, func(r config.Route) bool { return r.Queue == queue && r.HasHandler() })
}

// editor returns an editor of the policies of the broker of amqp.url.
func (p Policies) editor(ctx context.Context) (queuepolicy.Editor, error) {
	management, err := p.System.Management()
	if err != nil {
		return queuepolicy.Editor{}, err
	}
	conn, err := p.System.Dial(ctx)
	if err != nil {
		return queuepolicy.Editor{}, err
	}
	if err := system.CheckCluster(ctx, management, conn); err != nil {
		return queuepolicy.Editor{}, err
	}
	return queuepolicy.Editor{Management: management, VHost: p.System.VHost(), Topology: p.System.Topology()}, nil
}

// policyTimeout is longer than RabbitMQ may take to apply a policy.
const policyTimeout = time.Minute

// The operations on the policies of queues.
var (
	AddRoute = operation.Declare[PolicyInput, PolicyOutput](operation.Operation{
		Method: http.MethodPost, Path: "/routes/{queue}/add", ID: "addRoute", Tag: "system", Role: access.Admin, Timeout: policyTimeout, Unsigned: true,
		Summary: "Retry what the consumer of an existing queue rejects",
		Text: "A policy of RabbitMQ gives the queue of another program Watership's dead-letter exchange. A policy that applies already is repeated in the new one, " +
			"and a queue whose dead letters go elsewhere is refused. Messages that expire in the queue, or that it drops when it is full, become failures: notes say so. The login of amqp.management_url needs the tag policymaker.",
	})
	RemoveRoute = operation.Declare[PolicyInput, PolicyOutput](operation.Operation{
		Method: http.MethodPost, Path: "/routes/{queue}/remove", ID: "removeRoute", Tag: "system", Role: access.Admin, Timeout: policyTimeout, Unsigned: true,
		Summary: "Undo addRoute",
		Text:    "Deletes the policy. The policy that applied before applies again.",
	})
)

// PolicyInput names a queue whose policies change.
type PolicyInput struct {
	Queue string `path:"queue" maxLength:"255" doc:"Queue of another program"`
	operation.IdempotencyKey
	Body PolicyRequest
}

// PolicyRequest asks for a change of the policies of a queue.
type PolicyRequest struct {
	operation.Bounds
	Digest string `json:"digest,omitempty" maxLength:"100" doc:"Change nothing unless this is the digest of the change, as a dry run has it"`
}

// PolicyOutput has the change.
type PolicyOutput struct{ Body PolicyChange }

func (o operations) addRoute(ctx context.Context, in *PolicyInput) (*PolicyOutput, error) {
	return o.changePolicy(ctx, in, Add)
}

func (o operations) removeRoute(ctx context.Context, in *PolicyInput) (*PolicyOutput, error) {
	return o.changePolicy(ctx, in, Remove)
}

func (o operations) changePolicy(ctx context.Context, in *PolicyInput, action PolicyAction) (*PolicyOutput, error) {
	if _, err := decisionAbout(ctx, string(action), in.Queue, in.Body.Bounds); err != nil {
		return nil, err
	}
	policies := Policies{o.service.System}
	change, err := policies.Plan(ctx, in.Queue, action)
	if err != nil {
		return nil, policyProblem(ctx, err)
	}
	if err := in.Body.Check(change.Matched, "queue"); err != nil {
		return nil, err
	}
	if in.Body.Digest != "" && in.Body.Digest != change.Digest {
		return nil, &problem.Problem{
			Code: code.ExpectMismatch, Detail: "the policies of queue " + in.Queue + " have changed in the meantime: nothing was changed", Remedy: "Look at the change again.",
		}
	}
	if in.Body.DryRun || change.Matched == 0 {
		return &PolicyOutput{change}, nil
	}
	if err := policies.Apply(ctx, change); err != nil {
		return nil, policyProblem(ctx, err)
	}
	change.Done = true
	return &PolicyOutput{change}, nil
}

// policyProblem returns the problem of a change. An error of the management API other than that it does
// not answer concerns its login.
func policyProblem(ctx context.Context, err error) error {
	var refused *queuepolicy.RefusedError
	var mistake system.InputError
	var away *system.BrokerError
	switch {
	case errors.As(err, &refused):
		return &problem.Problem{Code: code.Conflict, Detail: refused.Reason, Remedy: refused.Remedy}
	case errors.As(err, &mistake), errors.As(err, &away), ctx.Err() != nil:
		return err
	case errors.Is(err, rabbit.ErrNoAnswer):
		return &system.BrokerError{Err: err}
	}
	return &problem.Problem{Code: code.BrokerRefused, Detail: err.Error(), Remedy: "Give the login of amqp.management_url the tag policymaker; see doctor."}
}
