package agent

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/approvals"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/quarantine"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
)

// reads are the operations that an agent calls to read. Streams cannot be among them, and what has a
// body that is not JSON.
func reads() []operation.Operation {
	return []operation.Operation{
		failures.GroupFailures.Operation, failures.GetFailureGroup.Operation, failures.GetGroupFailure.Operation,
		failures.GetGroupHistory.Operation, failures.GroupFailuresBy.Operation, failures.ExplainFailures.Operation, failures.ListFailures.Operation,
		messages.SearchEvents.Operation, messages.CountEvents.Operation, messages.CountValues.Operation, messages.CountOverTime.Operation,
		messages.GetEvent.Operation, messages.ListFields.Operation, messages.ListMessages.Operation, messages.GetMessages.Operation,
		messages.GetConversation.Operation, messages.GetStream.Operation, messages.ExplainFailure.Operation, messages.ListTimes.Operation,
		messages.GetServiceMap.Operation, waiting.ListWaiting.Operation, waiting.GroupWaiting.Operation,
		replays.ListReplays.Operation, replays.GetReplay.Operation, replays.GetOutcomes.Operation,
		routes.ListRoutes.Operation, routes.ListQueues.Operation,
		subscriptions.ListSubscriptions.Operation, subscriptions.GetSubscription.Operation, subscriptions.ListParked.Operation,
		approvals.ListApprovals.Operation, alerts.ListAlerts.Operation, doctor.RunDoctor.Operation,
	}
}

// action is an operation by which an agent acts, and the one that plans it: itself as a dry run, one
// with the same request that changes nothing, or one that reads what would be changed. guard has the
// action change what was planned alone; nil: such a thing does not exist.
type action struct {
	do, plan operation.Operation
	guard    guard
}

func actions() []action {
	dryRun := func(op operation.Operation) action { return action{op, op, matched} }
	return []action{
		{replays.StartReplay.Operation, replays.PlanReplay.Operation, matched},
		{replays.ResumeReplay.Operation, replays.GetReplay.Operation, left},
		{replays.CancelReplay.Operation, replays.GetReplay.Operation, nil},
		dryRun(failures.DiscardFailures.Operation),
		dryRun(failures.ResolveFailures.Operation),
		{failures.TriageFailureGroup.Operation, failures.GetFailureGroup.Operation, nil},
		dryRun(waiting.DecideWaiting.Operation),
		dryRun(quarantine.RewriteQuarantine.Operation),
		dryRun(routes.PauseRoute.Operation),
		dryRun(routes.ResumeRoute.Operation),
		{subscriptions.PauseSubscription.Operation, subscriptions.GetSubscription.Operation, nil},
		{subscriptions.ResumeSubscription.Operation, subscriptions.GetSubscription.Operation, nil},
		{subscriptions.RetryParked.Operation, subscriptions.ListParked.Operation, listed},
		{subscriptions.DropParked.Operation, subscriptions.ListParked.Operation, listed},
		{subscriptions.RewindSubscription.Operation, subscriptions.GetSubscription.Operation, nil},
	}
}

// tool is a tool of an operation.
type tool struct {
	name, text string
	op         *operation.Operation
	schema     map[string]any
	acts       bool
	call       func(ctx context.Context, h *Handler, arguments map[string]json.RawMessage) answer
}

// tools returns all tools. An operation that is missing is a mistake of this package.
func (h *Handler) tools() (all []tool) {
	for _, declared := range reads() {
		op := h.served(declared)
		schema := op.Arguments()
		delete(schema["properties"].(map[string]any), original)
		all = append(all, tool{op.ID, op.Summary + ". " + op.Text, op, schema, false, readBy(op)})
	}
	for _, a := range actions() {
		do, plan := h.served(a.do), h.served(a.plan)
		schema := do.Arguments()
		for _, own := range []string{"dry_run", "expect", "up_to"} { // of the plan
			delete(schema["properties"].(map[string]any), own)
		}
		all = append(all,
			tool{
				"plan_" + do.ID, "Plan " + do.ID + ", and change nothing. " + do.Summary + ". " + do.Text +
					" The plan says what this would be about, and has a number, which " + do.ID + " needs.", do, schema, false, planBy(do, plan, a.guard),
			},
			tool{do.ID, do.Summary + ", as plan_" + do.ID + " has planned it. A call that is repeated acts once.", do, planSchema(), true, actBy(do)})
	}
	return all
}

func planSchema() map[string]any {
	return map[string]any{
		"type": "object", "required": []string{"plan"}, "additionalProperties": false,
		"properties": map[string]any{"plan": map[string]any{"type": "string", "description": "Number of the plan"}},
	}
}

func (h *Handler) served(declared operation.Operation) *operation.Operation {
	op, known := h.Operations.Served(declared)
	if !known {
		panic("agent: operation " + declared.ID + " is not served")
	}
	return op
}

// described returns the tool as the protocol has it.
func (t tool) described() *mcp.Tool {
	no := false
	return &mcp.Tool{
		Name: t.name, Description: strings.TrimSpace(t.text), InputSchema: t.schema,
		Annotations: &mcp.ToolAnnotations{Title: t.op.Summary, ReadOnlyHint: !t.acts, DestructiveHint: &t.acts, IdempotentHint: true, OpenWorldHint: &no},
	}
}

// original is the parameter for a message without redaction, which agents are never given: what they read goes to
// the provider of their model.
const original = "original"

func readBy(op *operation.Operation) func(context.Context, *Handler, map[string]json.RawMessage) answer {
	return func(ctx context.Context, h *Handler, arguments map[string]json.RawMessage) answer {
		if _, given := arguments[original]; given {
			return refused(http.StatusForbidden, op.ID+" gives agents no originals of redacted messages. A person reads one in the console or by a command.")
		}
		return h.request(ctx, op, arguments, "")
	}
}

// planBy returns a function that plans an action.
func planBy(do, by *operation.Operation, guarded guard) func(context.Context, *Handler, map[string]json.RawMessage) answer {
	return func(ctx context.Context, h *Handler, arguments map[string]json.RawMessage) answer {
		if _, err := do.Request(h.Prefix, arguments); err != nil {
			return refused(http.StatusUnprocessableEntity, wordsOf(err))
		}
		var reason string
		if _ = json.Unmarshal(arguments["reason"], &reason); do.Has("reason") && strings.TrimSpace(reason) == "" {
			return refused(http.StatusUnprocessableEntity, "reason: expected why, for the record")
		}
		asked := withArguments(arguments, nil)
		switch {
		case do == by:
			asked["dry_run"] = json.RawMessage("true")
		case by.Method == http.MethodGet: // it does not check them
			if err := do.CheckArguments(arguments); err != nil {
				return refused(http.StatusUnprocessableEntity, wordsOf(err))
			}
			maps.DeleteFunc(asked, func(name string, _ json.RawMessage) bool { return !by.Has(name) })
		}
		planned := h.request(ctx, by, asked, "")
		if planned.failed() {
			return planned
		}
		act, unguarded := arguments, " It has no guard: what has changed until then counts."
		if guarded != nil {
			var why string
			if act, why = guarded(do, arguments, planned.body); why != "" {
				planned.note = "There is no number of a plan: " + why
				return planned
			}
			unguarded = ""
		}
		if _, _, err := mark(planned.body); err != nil { // the agent cannot see it
			return refused(http.StatusUnprocessableEntity, "There is no number of a plan: "+err.Error())
		}
		number := h.plans.add(ctx, plan{op: do.ID, arguments: act})
		planned.note = "This is the plan " + number + ", and nothing was changed. To do it: " + do.ID + ` {"plan": "` + number + `"}, within 15 minutes.` + unguarded
		return planned
	}
}

// actBy returns a function that carries out a plan.
func actBy(op *operation.Operation) func(context.Context, *Handler, map[string]json.RawMessage) answer {
	return func(ctx context.Context, h *Handler, arguments map[string]json.RawMessage) answer {
		var number string
		_ = json.Unmarshal(arguments["plan"], &number) // another value is no number of a plan
		planned, known := h.plans.find(ctx, number)
		if !known || planned.op != op.ID {
			return refused(http.StatusConflict, "There is no such plan of yours: plan_"+op.ID+" makes one, which counts for 15 minutes. Nothing was changed.")
		}
		return h.request(ctx, op, planned.arguments, "plan "+number)
	}
}
