package console

import (
	"context"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/console/actionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
)

const whyDone = "Say why nothing more is to be done."

// actions are the actions on many, each with the operation that does it.
func (p pages) actions() []actionpage.Action {
	return []actionpage.Action{
		{
			Path: "/failures/discard", Title: "Discard failures", Section: "/failures", Back: "/failures", Template: "failures_discard.html",
			Name: "discard", Unit: "failure", Reason: whyDone,
			Call: func(ctx context.Context, key operation.IdempotencyKey, s actionpage.Selection) (actionpage.Result, error) {
				out, err := failures.DiscardFailures.Call(ctx, p.api, failures.DiscardInput{IdempotencyKey: key, Body: failures.Discard{Choice: s.Choice, Bounds: s.Bounds}})
				return actionpage.Result{Outcome: out.Body.Outcome, Body: out.Body, Parked: out.Body.Parked, Did: "Discarded"}, err
			},
		},
		{
			Path: "/failures/resolve", Title: "Resolve groups of failures", Section: "/failures", Back: "/failures", Template: "failures_resolve.html",
			Name: "resolution", Unit: "failure", Reason: whyDone, ByGroup: true,
			Call: func(ctx context.Context, key operation.IdempotencyKey, s actionpage.Selection) (actionpage.Result, error) {
				out, err := failures.ResolveFailures.Call(ctx, p.api, failures.ResolveInput{IdempotencyKey: key, Body: failures.Resolve{Choice: s.Choice, Groups: s.Groups, Bounds: s.Bounds}})
				counts := map[string]int{"groups": len(out.Body.Resolved), "open": len(out.Body.Open)}
				return actionpage.Result{Outcome: out.Body.Outcome, Body: out.Body, Parked: out.Body.Parked, Did: "Resolved", Counts: counts}, err
			},
		},
		{
			Path: "/waiting/decide", Title: "Waiting messages", Section: "/waiting", Back: "/waiting", Template: "waiting_decide.html",
			Name: "decision", Unit: "message", Reason: "Say why: others see it at the messages.", BackToAll: true, Call: p.decideWaiting,
		},
	}
}

// decideWaiting decides about waiting messages. A preview needs no decision.
func (p pages) decideWaiting(ctx context.Context, key operation.IdempotencyKey, s actionpage.Selection) (actionpage.Result, error) {
	did := map[waiting.Action]string{waiting.Now: "Retried", waiting.Postpone: "Postponed", waiting.Cancel: "Cancelled"}
	decision := waiting.WaitingDecision{Choice: s.Choice, Bounds: s.Bounds, Action: waiting.Now}
	if !s.DryRun {
		decision.Action = waiting.Action(s.Form.Get("action"))
	}
	if decision.Action == waiting.Postpone {
		minutes, err := strconv.ParseFloat(s.Given("minutes"), 64)
		if err != nil || minutes <= 0 || minutes > waiting.MaxPostponement.Minutes() {
			return actionpage.Result{}, frame.Unprocessable("expected the minutes until the next attempt", "Give a number up to 43200, which is 30 days.")
		}
		decision.NotBefore = time.Now().Add(time.Duration(minutes * float64(time.Minute)))
	}
	out, err := waiting.DecideWaiting.Call(ctx, p.api, waiting.DecideInput{IdempotencyKey: key, Body: decision})
	return actionpage.Result{Outcome: out.Body.Outcome, Body: out.Body, Did: did[decision.Action], Counts: map[string]int{"gone": out.Body.Gone}}, err
}
