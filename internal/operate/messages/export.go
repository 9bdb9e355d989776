package messages

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/operation/sse"
	"github.com/watershipmq/watership/schemas"
)

const ndjson = "application/x-ndjson"

// ExportEvents declares the operation.
var ExportEvents = operation.Declare[ExportInput, huma.StreamResponse](operation.Operation{
	Method: http.MethodGet, Path: "/events/export", ID: "exportEvents", Tag: "events", Role: access.Viewer, Stream: true, Reads: true,
	Summary: "Export events as NDJSON",
	Text: "One document per line, with its body, in the order in which the events were recorded. `watership import` and `watership publish` read it. " +
		"The response is cut off after an error. The trailer Watership-Unreadable has the number of documents that cannot be read.",
	Responses: sse.Responses(ndjson, "One document per line"),
})

// ExportInput is the input of ExportEvents.
type ExportInput struct {
	eventfilter.QueryFilter
	Limit    int  `query:"limit" minimum:"0" doc:"Maximum number of events; 0: no limit"`
	Original bool `query:"original" doc:"Export messages as they were published, if the caller may read originals: the header Watership-Reason says why. A message whose original cannot be opened stays redacted"`
}

// UnreadableTrailer is the trailer of an export with the number of documents that cannot be read.
const UnreadableTrailer = "Watership-Unreadable"

func (o operations) exportEvents(ctx context.Context, in *ExportInput) (*huma.StreamResponse, error) {
	if !in.HasQuery() {
		return nil, problem.BadRequest("expected query or dsl", `Give the query "*" to export everything there is.`)
	}
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	if err := access.ReadBodies(ctx, in.Object()); err != nil {
		return nil, err
	}
	as := func(_ context.Context, e schemas.Event) (schemas.Event, error) { return e, nil }
	if in.Original {
		originals, err := ReadOriginals(ctx, o.System, in.Object())
		if err != nil {
			return nil, err
		}
		as = originals.Of
	}
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	if err := store.Check(ctx); err != nil {
		return nil, err
	}
	sel.Limit = in.Limit
	if sel, err = transfer.ExportSelection(ctx, store, sel); err != nil {
		return nil, err
	}
	return sse.Respond(ndjson, sse.WriteTimeout, func(ctx context.Context, to sse.Stream) error {
		if err := to.Flush(); err != nil { // a response with a length has no trailer
			return err
		}
		buffered, unreadable := bufio.NewWriterSize(to, 64<<10), 0
		for e, err := range store.Events(ctx, sel) {
			var failed *eventstore.Error
			if errors.As(err, &failed) {
				return err
			}
			if err != nil {
				unreadable++
				continue
			}
			if e, err = as(ctx, e); err != nil {
				return err
			}
			if _, err := buffered.Write(append(schemas.DocumentFormat{}.Append(nil, e), '\n')); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		to.SetTrailer(UnreadableTrailer, strconv.Itoa(unreadable))
		return buffered.Flush()
	}), nil
}
