package quarantine

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// RewriteQuarantine writes events in quarantine again. The messages and their bodies stay as they are.
var RewriteQuarantine = operation.Declare[RewriteInput, RewriteOutput](operation.Operation{
	Method: http.MethodPost, Path: "/quarantine/rewrite", ID: "rewriteQuarantine", Tag: "system", Role: access.Operator, Timeout: 10 * time.Minute, Unsigned: true,
	Summary: "Write events in quarantine again, after the cause is mended",
	Text: "Each event gets its document with all fields in place of the quarantined one, with the same id, time and sequence. What the store refuses again stays in quarantine. " +
		"It can be repeated. The login of store.url needs the privileges index and delete.",
})

// RewriteInput asks to write events again.
type RewriteInput struct {
	operation.IdempotencyKey
	Body RewriteRequest
}

// RewriteRequest selects events in quarantine.
type RewriteRequest struct {
	eventfilter.Choice
	operation.Bounds
}

// RewriteOutput has the result.
type RewriteOutput struct{ Body Rewritten }

// Rewritten is the result of a RewriteRequest.
type Rewritten struct {
	operation.Outcome
	Actions map[schemas.Action]int `json:"actions" doc:"The events by their action"`
	LeftOut map[string]int         `json:"left_out" doc:"Documents that stay, by reason: no_event for messages in the log that are no events, unreadable for documents that cannot be read"`
	Refused int                    `json:"refused" doc:"Events that the store refused again"`
	Reasons []Refusal              `json:"reasons" nullable:"false" doc:"Why, for the first of them"`
}

// operations are the functions of the operations.
type operations struct{ system *system.System }

// Implement adds the operation to a set.
func Implement(set *operation.Set, sys *system.System) {
	operation.Implement(set, RewriteQuarantine, operations{sys}.rewrite)
}

func (o operations) rewrite(ctx context.Context, in *RewriteInput) (*RewriteOutput, error) {
	r := in.Body
	r.Describe(ctx, "rewrite quarantine", r.Object())
	if err := r.Need("query, dsl or ids"); err != nil {
		return nil, err
	}
	node, err := r.Chosen(ctx, o.system)
	if err != nil {
		return nil, err
	}
	if len(r.IDs) > 0 {
		node = kql.And{node, eventstore.ByName(eventfilter.SortedIDs(r.IDs))}
	}
	store, err := o.system.Store(ctx)
	if err != nil {
		return nil, err
	}
	finder := Finder{Store: store, Owns: o.system.Topology().Owns}
	plan, err := finder.Plan(ctx, node)
	if err == nil && plan.Matched == 0 {
		err = store.Check(ctx)
	}
	if err != nil {
		return nil, err
	}
	out := &RewriteOutput{Rewritten{Outcome: plan.Outcome, Actions: plan.Actions, LeftOut: plan.LeftOut, Reasons: []Refusal{}}}
	if out.Body.Unknown, err = eventfilter.Unknown(ctx, o.system, r.IDs); err != nil {
		return nil, err
	}
	if err := r.Check(plan.Matched, "event"); err != nil {
		return nil, err
	}
	if r.DryRun || plan.Matched == 0 {
		return out, nil
	}
	rewriting := Rewrite{Finder: finder, Format: o.system.DocumentFormat()}
	err = rewriting.Run(ctx, node)
	out.Body.Done, out.Body.Refused = rewriting.Written, rewriting.Refused
	out.Body.Reasons = append(out.Body.Reasons, rewriting.Reasons...)
	return out, out.Body.Unfinished(err, "event")
}
