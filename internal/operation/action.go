package operation

import (
	"context"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/wording"
)

// Bounds are the part that is the same in the request for each action on many: why it is done, and
// on how many.
type Bounds struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why"`
	Expect *int   `json:"expect,omitempty" minimum:"0" nullable:"true" doc:"Change nothing if another number matches than this one, such as matched of a dry run; for waiting messages if more match, since fewer are due by themselves"`
	DryRun bool   `json:"dry_run,omitempty" doc:"Change nothing, and say what would be changed"`
}

// Describe describes the action for its audit event.
func (b Bounds) Describe(ctx context.Context, name, object string) {
	access.Describe(ctx, access.Action{Name: name, Object: object, Reason: b.Reason, DryRun: b.DryRun})
}

// NeedReason returns a problem if an action has no reason, unless it is only tried.
func (b Bounds) NeedReason() error {
	if b.DryRun || strings.TrimSpace(b.Reason) != "" {
		return nil
	}
	return problem.Invalid("body.reason", "expected a reason")
}

// Check returns a problem if another number matches than the caller expects. unit is the word for
// one of them.
func (b Bounds) Check(matched int, unit string) error { return CheckNumber(b.Expect, matched, unit) }

// CheckNumber is Bounds.Check for a number that a caller expects; nil: any.
func CheckNumber(expected *int, matched int, unit string) error {
	if expected == nil || *expected == matched {
		return nil
	}
	return &problem.Problem{
		Code: code.ExpectMismatch, Detail: fmt.Sprintf("%s, %d expected: nothing was changed", wording.PluralVerb(matched, unit, "matches", "match"), *expected),
		Remedy: "Look at them again, and give their number.",
	}
}

// Found is the part that is the same in all that say on how many an action is or would be.
type Found struct {
	Matched int      `json:"matched" doc:"Number of all that match, of a replay without those that are left out"`
	UpTo    int64    `json:"up_to" doc:"Highest event.sequence of them, of all unresolved failures of their groups, or of all that a replay has read: a request with it and matched, as expect, is about these"`
	Unknown []string `json:"unknown" nullable:"false" doc:"Ids that name nothing, or of waiting messages none that waits; at most 1000 of them"`
}

// Outcome is the part that is the same in the response to each action on many.
type Outcome struct {
	Found
	Queues  map[string]int `json:"queues" doc:"Number of all that match, by queue"`
	Done    int            `json:"done" doc:"Number of those that were changed"`
	Missing int            `json:"missing" doc:"Events about the change that the store does not have yet"`
}

// NewOutcome returns the outcome of an action that has found nothing yet.
func NewOutcome() Outcome {
	return Outcome{Found: Found{Unknown: []string{}}, Queues: map[string]int{}}
}

// Unfinished returns the error of an action, with the number of those that were changed before it.
func (o *Outcome) Unfinished(err error, unit string) error {
	if err == nil || o.Done == 0 {
		return err
	}
	return &problem.UnfinishedError{Done: o.Done, Unit: unit, Err: err}
}

// Find counts one that matches.
func (o *Outcome) Find(queue string, sequence int64) {
	o.Matched++
	o.Queues[queue]++
	o.UpTo = max(o.UpTo, sequence)
}
