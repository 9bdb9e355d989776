package httpapi

import (
	"context"
	"net/http"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

func (a *API) registerStreams() {
	register(a, operation.Operation{
		Method: http.MethodGet, Path: "/streams/{id}", ID: "getStream", Tag: "messages", Role: access.Viewer,
		Summary: "Get the messages of a stream, in order",
		Text:    "Each message once, with what became of it, and the gaps and doubles in the versions of the whole stream.",
	}, a.getStream)
}

type streamInput struct {
	ID     string `path:"id" maxLength:"1024" doc:"Id of the stream (watership.stream.id)" example:"order-42"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Maximum number of messages"`
	Cursor string `query:"cursor" maxLength:"2000" pattern:"^[A-Za-z0-9_-]*$" doc:"Cursor of the page before, for the same stream"`
}

type streamOutput struct{ Body StreamPage }

// StreamPage is a page of a stream.
type StreamPage struct {
	history.Stream
	Cursor string `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
}

func (a *API) getStream(ctx context.Context, in *streamInput) (*streamOutput, error) {
	store, err := eventfilter.Visible(ctx, a.System)
	if err != nil {
		return nil, err
	}
	page := history.StreamPage{ID: in.ID, Limit: in.Limit, Kept: a.System.Settings().Store.Retention.Traffic}
	if page.Cursor, err = operation.ParseCursor[history.StreamCursor](in.Cursor); err != nil {
		return nil, err
	}
	found, next, err := history.FindStream(ctx, store, page, a.reporters)
	found.Limited = access.FromContext(ctx).Limited()
	out := &streamOutput{StreamPage{Stream: found}}
	if next != (history.StreamCursor{}) {
		out.Body.Cursor = operation.FormatCursor(next)
	}
	return out, err
}
