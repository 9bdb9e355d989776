package messages

import (
	"context"
	"net/http"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// GetStream declares the operation.
var GetStream = operation.Declare[StreamInput, StreamOutput](operation.Operation{
	Method: http.MethodGet, Path: "/streams/{id}", ID: "getStream", Tag: "messages", Role: access.Viewer,
	Summary: "Get the messages of a stream, in order",
	Text:    "Each message once, with what became of it, and the gaps and doubles in the versions of the whole stream.",
})

// StreamInput is the input of GetStream.
type StreamInput struct {
	ID     string `path:"id" maxLength:"1024" doc:"Id of the stream (watership.stream.id)" example:"order-42"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Maximum number of messages"`
	Cursor string `query:"cursor" maxLength:"2000" pattern:"^[A-Za-z0-9_-]*$" doc:"Cursor of the page before, for the same stream"`
}

// StreamOutput is the output of GetStream.
type StreamOutput struct{ Body StreamPage }

// StreamPage is a page of a stream.
type StreamPage struct {
	history.Stream
	Cursor string `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
}

func (o operations) getStream(ctx context.Context, in *StreamInput) (*StreamOutput, error) {
	store, err := eventfilter.Visible(ctx, o.System)
	if err != nil {
		return nil, err
	}
	page := history.StreamPage{ID: in.ID, Limit: in.Limit, Kept: o.System.Settings().Store.Retention.Traffic}
	if page.Cursor, err = operation.ParseCursor[history.StreamCursor](in.Cursor); err != nil {
		return nil, err
	}
	found, next, err := history.FindStream(ctx, store, page, o.reporters)
	found.Limited = access.FromContext(ctx).Limited()
	out := &StreamOutput{StreamPage{Stream: found}}
	if next != (history.StreamCursor{}) {
		out.Body.Cursor = operation.FormatCursor(next)
	}
	return out, err
}
