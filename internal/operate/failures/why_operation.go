package failures

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// ExplainFailures declares the operation.
var ExplainFailures = operation.Declare[WhyInput, WhyOutput](operation.Operation{
	Method: http.MethodGet, Path: "/failures/why", ID: "explainFailures", Tag: "failures", Role: access.Viewer, Timeout: time.Minute,
	Summary: "Find what distinguishes a group of failures",
	Text: "Compares the headers, properties, origin, time and body of the failed messages with messages that the same queue handled in the same time. " +
		"Fields of bodies are compared if the caller may read bodies, which is recorded.",
})

// WhyInput names the failures to explain.
type WhyInput struct {
	Of    string `query:"of" required:"true" minLength:"1" maxLength:"1024" doc:"Id of a group of failures, or of a message that failed: the group of its last failure is meant"`
	Since string `query:"since" maxLength:"100" doc:"Compare only messages of the last 15m, 1h30m, 7d, and so on; none: from a day before the first failure" example:"12h"`
}

// WhyOutput has what distinguishes the failures.
type WhyOutput struct{ Body Why }

func (o operations) why(ctx context.Context, in *WhyInput) (*WhyOutput, error) {
	period := system.Period{Since: in.Since}
	if _, err := period.Limit(kql.All{}); err != nil {
		return nil, err
	}
	since, _, err := period.Bounds()
	if err != nil {
		return nil, err
	}
	may, err := visible(ctx)
	if err != nil {
		return nil, err
	}
	g, err := o.groupOf(ctx, in.Of, may)
	if err != nil {
		return nil, err
	}
	withBodies := access.FromContext(ctx).Bodies
	if withBodies {
		if err := access.ReadBodies(ctx, kql.FieldIs("watership.queue", g.Queue).String()); err != nil {
			return nil, err
		}
	}
	why, err := o.Why(ctx, g, since, may, withBodies)
	return &WhyOutput{why}, err
}

// groupOf returns the group with an id, or the group of the last failure of a message with the id.
func (o operations) groupOf(ctx context.Context, id string, may kql.Node) (*FailureGroup, error) {
	g, err := o.Find(ctx, id, may)
	var unknown *NotFoundError
	if !errors.As(err, &unknown) {
		return g, err
	}
	store, failed := eventfilter.Visible(ctx, o.System)
	if failed != nil {
		return nil, failed
	}
	found, failed := history.Find(ctx, store, id)
	var none *history.NotFoundError
	switch {
	case errors.As(failed, &none):
		return nil, problem.NotFound(fmt.Sprintf("neither a group of failures nor a message has the id %q", id))
	case failed != nil:
		return nil, failed
	}
	var last schemas.Event
	for _, life := range found.List {
		for _, e := range life.Events {
			if e.RecordedAction() == schemas.Poisoned && e.Sequence > last.Sequence {
				last = e
			}
		}
	}
	if last.EventID == "" {
		return nil, problem.NotFound(fmt.Sprintf("message %q has not failed for good", id))
	}
	kind := history.KindOf(eventstore.Summarize(last))
	if g, err = o.Find(ctx, kind.ID(), may); errors.As(err, &unknown) { // all are resolved
		return &FailureGroup{Group: history.Group{ID: kind.ID(), Kind: kind, Query: kind.Query().String()}}, nil
	}
	return g, err
}
