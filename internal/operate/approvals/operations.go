package approvals

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// decideTimeout is the longest time of an operation that may be approved, doTimeout, and a margin.
const (
	decideTimeout = 6 * time.Minute
	doTimeout     = 5 * time.Minute
)

// The operations on approvals.
var (
	ListApprovals = operation.Declare[struct{}, ListOutput](operation.Operation{
		Method: http.MethodGet, Path: "/approvals", ID: "listApprovals", Tag: "approvals", Role: access.Viewer,
		Summary: "List the actions that wait for a second person, or have waited in the last 30 days, the newest first",
		Text:    "Callers that are limited to queues or exchanges see their own.",
	})
	DecideApproval = operation.Declare[DecideInput, DecideOutput](operation.Operation{
		Method: http.MethodPost, Path: "/approvals/{id}/decide", ID: "decideApproval", Tag: "approvals", Role: access.Operator, Timeout: decideTimeout, Unsigned: true,
		Summary: "Approve or refuse an action of somebody else",
		Text: "What is approved is done by this request, in the name and with the permissions of who asked for it: exactly those that it has counted, or nothing. " +
			"Nobody can approve an action of their own, and no agent can approve one.",
	})
)

// ListOutput has the approvals.
type ListOutput struct{ Body Approvals }

// Approvals is a list of approvals.
type Approvals struct {
	Approvals []Approval `json:"approvals" nullable:"false"`
}

// DecideInput has a decision.
type DecideInput struct {
	operation.IdempotencyKey
	ID   string `path:"id" maxLength:"100" doc:"Id of the approval"`
	Body ApprovalDecision
}

// ApprovalDecision is the decision of a second person.
type ApprovalDecision struct {
	Decision string `json:"decision" enum:"approve,refuse"`
	Reason   string `json:"reason,omitempty" maxLength:"1000" doc:"Why; a refusal needs it"`
}

// DecideOutput has an approval.
type DecideOutput struct{ Body Approval }

type operations struct{ Service }

// Implement adds the operations on approvals of a set to it.
func Implement(set *operation.Set, sys *system.System) {
	o := operations{Service{sys, set}}
	operation.Implement(set, ListApprovals, o.list)
	operation.Implement(set, DecideApproval, o.decide)
}

func (o operations) list(ctx context.Context, _ *struct{}) (*ListOutput, error) {
	records, err := o.records(ctx)
	if err != nil {
		return nil, err
	}
	caller, out := access.FromContext(ctx), &ListOutput{Approvals{[]Approval{}}}
	for _, r := range records {
		if !caller.Limited() || isSame(caller, r.Asker) {
			out.Body.Approvals = append(out.Body.Approvals, r.visible(ctx))
		}
	}
	return out, nil
}

func isSame(a, b access.Identity) bool { return a.Method == b.Method && a.Name == b.Name }

func (o operations) decide(ctx context.Context, in *DecideInput) (*DecideOutput, error) {
	verb := "refuse"
	if in.Body.Decision == "approve" {
		verb = "approve"
	}
	access.Describe(ctx, access.Action{Name: verb, Object: "approval " + in.ID, Reason: in.Body.Reason})
	if verb == "refuse" && strings.TrimSpace(in.Body.Reason) == "" {
		return nil, problem.Invalid("body.reason", "expected a reason")
	}
	caller, now := access.FromContext(ctx), time.Now().UTC()
	decided, err := o.change(ctx, in.ID, func(kept *record) error {
		if err := mayDecide(caller, *kept, verb, now); err != nil {
			return err
		}
		kept.State, kept.Decider, kept.Decided, kept.Note = Refused, caller.Name, &now, in.Body.Reason
		if verb == "approve" {
			kept.State = Approved
		}
		return nil
	})
	if err != nil || verb == "refuse" {
		return &DecideOutput{decided.visible(ctx)}, err
	}
	access.Describe(ctx, access.Action{Object: "approval " + in.ID + ": " + decided.summary() + " of " + decided.By})
	return o.do(context.WithoutCancel(ctx), decided)
}

// mayDecide returns the problem of a decision that cannot be made.
func mayDecide(caller access.Identity, a record, verb string, now time.Time) error {
	switch {
	case a.State == Expired || a.State == Refused || a.State == Done || a.State == Failed:
		return &problem.Problem{Code: code.HasEnded, Detail: "approval " + a.ID + " is " + string(a.State) + ": nothing is left to decide", Remedy: "Ask anew, if the action is still wanted."}
	case a.State == Approved && verb == "refuse":
		return &problem.Problem{Code: code.HasEnded, Detail: "approval " + a.ID + " was approved by " + a.Decider}
	case a.State == Approved && a.Decided != nil && now.Sub(*a.Decided) < decideTimeout:
		return &problem.Problem{Code: code.Conflict, Detail: "approval " + a.ID + " was approved by " + a.Decider + " just now, and is being done", Remedy: "Look at it again after some minutes."}
	case caller.Client != "":
		return problem.Forbidden("an agent cannot decide on an approval", "A person decides, in the console or by watership approvals.")
	case verb == "refuse" && isSame(caller, a.Asker):
		return nil // withdraws it
	case isSame(caller, a.Asker):
		return problem.Forbidden(caller.Name+" has asked for it, and a second person has to approve it", "Ask somebody else.")
	case !caller.May(a.Needs):
		return access.NeedsRole(caller, a.Needs)
	case verb == "approve" && a.hasProgram() && !mayRead(caller):
		return problem.Forbidden(caller.Name+" may not read bodies, and so not its program", "Ask somebody who may read bodies.")
	case caller.Limited():
		return problem.Forbidden(caller.Name+" is limited to some queues or exchanges, and may not see all that it is about", "Ask somebody without limits.")
	}
	return nil
}

// approvedKey marks the context of an operation that was approved.
type approvedKey struct{}

// do carries out an approved action, and saves its result.
func (o operations) do(ctx context.Context, approved record) (*DecideOutput, error) {
	output, failed, unrecorded := o.repeat(ctx, approved)
	ended, err := o.change(ctx, approved.ID, func(kept *record) error {
		if kept.Decided == nil || !kept.Decided.Equal(*approved.Decided) || kept.Decider != approved.Decider {
			return &problem.Problem{Code: code.Conflict, Detail: "approval " + approved.ID + " was approved again before it was done", Remedy: "Look at its result."}
		}
		if kept.State, kept.Result = Done, resultOf(output); failed != nil {
			kept.State, kept.Result = Failed, failed.Text(failed.Remedy)
		}
		return nil
	})
	if err = errors.Join(unrecorded, err); err == nil && failed != nil {
		return nil, failed
	}
	return &DecideOutput{ended.Approval}, err
}

// repeat sends the approved request again as its asker, with another audit event. failed is the reason why it was not done,
// or in part; unrecorded is an error of the audit event.
func (o operations) repeat(ctx context.Context, approved record) (output []byte, failed *problem.Problem, unrecorded error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, approvedKey{}, true), doTimeout)
	defer cancel()
	called := false
	unrecorded = access.Call(access.NewContext(ctx, approved.Asker), access.Action{Name: approved.Operation}, func(ctx context.Context) int {
		called = true
		result, err := o.Set.Repeat(ctx, approved.Operation, approved.Input)
		access.DescribeBefore(ctx, "approval "+approved.ID+" approved by "+approved.Decider)
		if output = result; err != nil {
			failed = problem.New(ctx, err)
			access.Refuse(ctx, failed.Detail)
			return failed.Status
		}
		return http.StatusOK
	})
	if !called {
		failed = problem.New(ctx, unrecorded)
	}
	return output, failed, unrecorded
}

// maxResult bounds the response that is kept.
const maxResult = 4000 // bytes

// resultOf returns the response of an operation for those who look at its approval.
func resultOf(output []byte) string {
	var response struct{ Body json.RawMessage }
	_ = json.Unmarshal(output, &response) // it was written just now
	text := string(response.Body)
	return strings.ToValidUTF8(text[:min(len(text), maxResult)], "")
}
