package failures

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/render/reason"
)

// The operations on failures.
var (
	ListFailures = operation.Declare[FailuresInput, FailuresOutput](operation.Operation{
		Method: http.MethodGet, Path: "/failures", ID: "listFailures", Tag: "failures", Role: access.Viewer, Timeout: time.Minute,
		Summary: "List unresolved failures, in the order in which they were recorded",
		Text:    "A failure is a message that was given up. It is unresolved until a replay of it is handled or it is discarded.",
	})
	DiscardFailures = operation.Declare[DiscardInput, DiscardOutput](operation.Operation{
		Method: http.MethodPost, Path: "/failures/discard", ID: "discardFailures", Tag: "failures", Role: access.Operator, Timeout: 2 * time.Minute,
		Summary: "Mark failures as resolved, with a reason",
		Text:    "Nothing is deleted: each failure gets an event, and can still be replayed. A repeated request finds nothing that is left to discard.",
	})
)

// FailuresInput asks for a page of failures.
type FailuresInput struct {
	eventfilter.QueryFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of failures"`
	Cursor string `query:"cursor" maxLength:"2000" pattern:"^[A-Za-z0-9_-]*$" doc:"Cursor of the page before, for the same query"`
}

// FailuresOutput has a page of failures.
type FailuresOutput struct{ Body FailurePage }

// FailurePage is a page of failures.
type FailurePage struct {
	Failures []Failure `json:"failures" nullable:"false"`
	Cursor   string    `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
}

// Failure is a message that was given up.
type Failure struct {
	EventID     string    `json:"event_id" doc:"Id of the event that gave the message up"`
	Time        time.Time `json:"time"`
	Queue       string    `json:"queue"`
	MessageID   string    `json:"message_id,omitempty" doc:"Id that the publisher set"`
	Message     string    `json:"message,omitempty" doc:"Id that the message got at its first failure"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	Class       string    `json:"class,omitempty"`
	Type        string    `json:"type,omitempty" doc:"Type of the error"`
	Group       string    `json:"error_group" doc:"Text of the error, with ids and numbers as #"`
}

func newFailure(f eventstore.EventSummary) Failure {
	return Failure{f.EventID, f.Time, f.Queue, f.MessageID, f.Message, f.Fingerprint, f.Class, f.ErrorType, f.ErrorGroup}
}

func (o operations) listFailures(ctx context.Context, in *FailuresInput) (*FailuresOutput, error) {
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	after, err := operation.ParseCursor[eventstore.Cursor](in.Cursor)
	if err != nil {
		return nil, err
	}
	open, err := Unresolved(ctx, o.System)
	if err != nil {
		return nil, err
	}
	page := FailurePage{Failures: []Failure{}}
	for f, err := range open.OpenAfter(ctx, sel.Query, after) {
		if err != nil {
			return nil, err
		}
		if len(page.Failures) == in.Limit {
			page.Cursor = operation.FormatCursor(after)
			break
		}
		after = eventstore.Cursor{Sequence: f.Sequence, EventID: f.EventID}
		page.Failures = append(page.Failures, newFailure(f))
	}
	if len(page.Failures) == 0 {
		err = o.System.CheckStore(ctx) // may be the reason
	}
	return &FailuresOutput{page}, err
}

// DiscardInput asks to discard failures.
type DiscardInput struct {
	operation.IdempotencyKey
	Body Discard
}

// Discard selects failures to discard.
type Discard struct {
	eventfilter.Choice
	operation.Bounds
}

// DiscardOutput has the result.
type DiscardOutput struct{ Body Discarded }

// Discarded is the result of a Discard.
type Discarded struct {
	operation.Outcome
	Sample []Failure      `json:"sample" nullable:"false" doc:"The first few of them"`
	Parked []ParkedCopies `json:"parked" nullable:"false" doc:"Queues with parked copies, which stay there"`
}

const maxFailedSample = 5

func newDiscarded(failures []eventstore.EventSummary) Discarded {
	d := Discarded{Outcome: operation.NewOutcome(), Sample: []Failure{}, Parked: []ParkedCopies{}}
	for _, f := range failures {
		d.Find(f.Queue, f.Sequence)
		if len(d.Sample) < maxFailedSample {
			d.Sample = append(d.Sample, newFailure(f))
		}
	}
	return d
}

func (o operations) discardFailures(ctx context.Context, in *DiscardInput) (*DiscardOutput, error) {
	d := in.Body
	d.Describe(ctx, "discard", d.Object())
	if err := cmp.Or(d.Need("query, dsl or ids"), d.NeedReason()); err != nil {
		return nil, err
	}
	node, err := d.Chosen(ctx, o.System)
	if err != nil {
		return nil, err
	}
	open, err := Unresolved(ctx, o.System)
	if err != nil {
		return nil, err
	}
	found, err := open.OpenByID(ctx, node, eventfilter.SortedIDs(d.IDs))
	if err != nil {
		return nil, err
	}
	out := &DiscardOutput{newDiscarded(found)}
	if out.Body.Unknown, err = eventfilter.Unknown(ctx, o.System, d.IDs); err != nil {
		return nil, err
	}
	if err := d.Check(len(found), "failure"); err != nil {
		return nil, err
	}
	if d.DryRun || len(found) == 0 {
		parked, err := previewParked(ctx, o.System, slices.Sorted(maps.Keys(out.Body.Queues)))
		out.Body.Parked = append(out.Body.Parked, parked...)
		return out, err
	}
	return out, o.discard(ctx, history.EventIDs(found), d.Reason, &out.Body)
}

func (o operations) discard(ctx context.Context, ids []string, why string, out *Discarded) error {
	done, err := discardAll(ctx, o.System, ids, reason.Decision{Operator: access.FromContext(ctx).Name, Reason: why})
	out.Done = done.Failures
	if err != nil {
		return out.Unfinished(err, "failure")
	}
	parked, err := FindParkedCopies(ctx, o.System, done.Queues)
	if out.Parked = append(out.Parked, parked...); err != nil {
		return out.Unfinished(err, "failure")
	}
	out.Missing, err = awaitDiscarded(ctx, o.System, ids)
	return out.Unfinished(err, "failure")
}
