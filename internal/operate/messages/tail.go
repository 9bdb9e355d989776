package messages

import (
	"cmp"
	"context"
	"net/http"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/operation/sse"
	"github.com/watershipmq/watership/schemas"
)

// TailEvents declares the operation.
var TailEvents = operation.Declare[TailInput, huma.StreamResponse](operation.Operation{
	Method: http.MethodGet, Path: "/events/tail", ID: "tailEvents", Tag: "events", Role: access.Viewer, Stream: true, Reads: true,
	Summary: "Follow new events",
	Text: "Server-sent events: event has the document of an event, and unavailable the problem of a store that does not answer. " +
		"The id of an event, as Last-Event-ID, continues after it. An id without an event comes first.",
	Responses: sse.Responses(sse.ContentType, "Server-sent events"),
})

// TailInput is the input of TailEvents.
type TailInput struct {
	Query       string `query:"query" maxLength:"4000" doc:"Query in Kibana's language (KQL); none: all events"`
	WithBody    bool   `query:"body" doc:"Return bodies, too, if the caller may read them"`
	Last        int    `query:"last" minimum:"0" maximum:"1000" doc:"Start with this many earlier events"`
	LastEventID string `header:"Last-Event-ID" maxLength:"2000" doc:"Id of the last event that the client has received"`
}

func (o operations) tailEvents(ctx context.Context, in *TailInput) (*huma.StreamResponse, error) {
	node, err := eventfilter.Filter{Query: in.Query}.Node(ctx, o.System, "")
	if err != nil {
		return nil, err
	}
	if in.WithBody {
		if err := access.ReadBodies(ctx, in.Query); err != nil {
			return nil, err
		}
	}
	after, err := operation.ParseCursor[eventstore.Cursor](in.LastEventID)
	if err != nil {
		return nil, err
	}
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	if err := store.Check(ctx); err != nil {
		return nil, err
	}
	sel := eventstore.Selection{Query: node, WithoutBody: !in.WithBody, After: after}
	highest, err := store.HighestSequence(ctx)
	if err != nil {
		return nil, err
	}
	documentOf := o.documentOf(ctx)
	return sse.RespondEvents(sse.WriteTimeout, func(ctx context.Context, to *sse.Writer) error {
		if err := to.ID(operation.FormatCursor(cmp.Or(after, eventstore.Cursor{Sequence: max(highest, 1)}))); err != nil {
			return err
		}
		return history.Follow(ctx, store, sel, in.Last, tail{documentOf, to})
	}), nil
}

// tail writes the events of history.Follow.
type tail struct {
	documentOf func(schemas.Event) eventjson.Document
	to         *sse.Writer
}

// Receive implements history.Receiver.
func (t tail) Receive(e schemas.Event) error {
	id := operation.FormatCursor(eventstore.Cursor{Sequence: e.Sequence, EventID: e.EventID})
	return t.to.Event("event", id, t.documentOf(e))
}

// Flush implements history.Receiver.
func (t tail) Flush() error {
	if err := t.to.Flush(); err != nil {
		return err
	}
	return t.to.KeepAlive()
}

// Unreadable implements history.Receiver. A failed write ends the next one.
func (t tail) Unreadable(err error) {
	_ = t.to.Event("unreadable", "", problem.Problem{Code: code.Internal, Detail: err.Error()}.Complete())
}

// Unavailable implements history.Receiver.
func (t tail) Unavailable(err error) {
	_ = t.to.Send("unavailable", "", problem.New(context.Background(), err))
}
