package messages

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

const maxPageBytes = 8 << 20 // of documents of a page; a single one can be larger

// The operations of this file.
var (
	SearchEvents = operation.Declare[SearchInput, SearchOutput](operation.Operation{
		Method: http.MethodGet, Path: "/events", ID: "searchEvents", Tag: "events", Role: access.Viewer, Reads: true,
		Summary: "Search events, newest or slowest first",
		Text:    "A page may have fewer events than the limit. There are more if it has a cursor.",
	})
	GetEvent = operation.Declare[EventInput, EventOutput](operation.Operation{
		Method: http.MethodGet, Path: "/event", ID: "getEvent", Tag: "events", Role: access.Viewer, Reads: true,
		Summary: "Get an event",
		Text:    "The id is a parameter, since it may be any text, such as the name of another operation.",
	})
)

// SearchInput is the input of SearchEvents.
type SearchInput struct {
	eventfilter.QueryFilter
	Fields   []string `query:"fields" maxItems:"100" doc:"Fields to return, by full or short names; none: all except the body"`
	WithBody bool     `query:"body" doc:"Return bodies, too, if the caller may read them"`
	Sort     string   `query:"sort" enum:"newest,slowest,slowest-queue,slowest-handler" default:"newest" doc:"Order: newest first, or the attempts first that took longest: from publish to handled, in the queue or in the handler. Attempts whose time is not known are left out"`
	Limit    int      `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"Maximum number of events"`
	Cursor   string   `query:"cursor" maxLength:"2000" pattern:"^[A-Za-z0-9_-]*$" doc:"Cursor of the page before, for the same query"`
}

// SearchOutput is the output of SearchEvents.
type SearchOutput struct{ Body EventPage }

// EventPage is a page of events.
type EventPage struct {
	Events []eventjson.Document `json:"events" nullable:"false"`
	Cursor string               `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`

	Unreadable []string `json:"unreadable,omitempty" nullable:"false" doc:"Problems of documents that cannot be read"`
}

func (o operations) searchEvents(ctx context.Context, in *SearchInput) (*SearchOutput, error) {
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	sel = Sorted(sel, in.Sort)
	if sel.After, err = operation.ParseCursor[eventstore.Cursor](in.Cursor); err != nil {
		return nil, err
	}
	fields, err := fieldNames(o.System, in.Fields)
	if err != nil {
		return nil, err
	}
	withBody := in.WithBody || namesBody(fields)
	if withBody {
		if err := access.ReadBodies(ctx, in.Object()); err != nil {
			return nil, err
		}
	}
	sel.Limit, sel.WithoutBody = in.Limit+1, !withBody // one more reports whether there is a next page
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	page, err := o.readPage(ctx, store, sel, fields)
	if err == nil && len(page.Events) == 0 && in.Cursor == "" {
		err = store.Check(ctx) // may be the reason
	}
	return &SearchOutput{page}, err
}

// Sorted returns a selection in the order with a name of SearchInput, of attempts alone if that sorts by a
// time of work.
func Sorted(sel eventstore.Selection, sort string) eventstore.Selection {
	switch sort {
	case "slowest":
		sel.Order = eventstore.SlowestInTotal
	case "slowest-queue":
		sel.Order = eventstore.SlowestInQueue
	case "slowest-handler":
		sel.Order = eventstore.SlowestInHandler
	default:
		return sel
	}
	sel.Query = kql.And{history.Attempts(), cmp.Or[kql.Node](sel.Query, kql.All{})}
	return sel
}

// SortOf returns the name of the order of a selection.
func SortOf(sel eventstore.Selection) string {
	switch sel.Order {
	case eventstore.SlowestInTotal:
		return "slowest"
	case eventstore.SlowestInQueue:
		return "slowest-queue"
	case eventstore.SlowestInHandler:
		return "slowest-handler"
	}
	return "newest"
}

// documentOf returns a function for the documents of events, as the caller may read them.
func (o operations) documentOf(ctx context.Context) func(schemas.Event) eventjson.Document {
	format := o.System.DocumentFormat()
	return func(e schemas.Event) eventjson.Document { return eventjson.Of(ctx, format, e) }
}

// readPage reads the events of a selection but the last, up to maxPageBytes.
func (o operations) readPage(ctx context.Context, store system.EventStore, sel eventstore.Selection, fields []string) (EventPage, error) {
	page := EventPage{Events: []eventjson.Document{}}
	size, last, documentOf := 0, sel.After, o.documentOf(ctx)
	for e, err := range store.Events(ctx, sel) {
		var failed *eventstore.Error
		switch {
		case errors.As(err, &failed):
			return page, err
		case err != nil:
			page.Unreadable = append(page.Unreadable, err.Error())
			continue
		case len(page.Events) == sel.Limit-1 || size > maxPageBytes:
			page.Cursor = operation.FormatCursor(last)
			return page, nil
		}
		document := documentOf(e)
		if len(fields) > 0 {
			if document, err = document.Only(fields); err != nil {
				return page, err
			}
		}
		size += len(document)
		page.Events = append(page.Events, document)
		last = eventstore.CursorAt(e)
	}
	return page, ctx.Err()
}

// fieldNames returns the full names of fields.
func fieldNames(sys *system.System, names []string) ([]string, error) {
	full := make([]string, len(names))
	for i, name := range names {
		field, err := sys.Field(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		full[i] = field.Name
	}
	return full, nil
}

func namesBody(fields []string) bool {
	for _, name := range fields {
		if name == "body" || strings.HasPrefix(name, "body.") {
			return true
		}
	}
	return false
}

// EventInput is the input of GetEvent.
type EventInput struct {
	ID       string `query:"id" required:"true" minLength:"1" maxLength:"1024" doc:"Id of the event (event.id)"`
	WithBody bool   `query:"body" doc:"Return the body, too, if the caller may read it"`
}

// EventOutput is the output of GetEvent.
type EventOutput struct{ Body eventjson.Document }

func (o operations) getEvent(ctx context.Context, in *EventInput) (*EventOutput, error) {
	if in.WithBody {
		if err := access.ReadBodies(ctx, in.ID); err != nil {
			return nil, err
		}
	}
	e, err := o.event(ctx, in.ID, in.WithBody)
	return &EventOutput{o.documentOf(ctx)(e)}, err
}

// event reads an event that the caller may see.
func (o operations) event(ctx context.Context, id string, withBody bool) (schemas.Event, error) {
	store, err := o.System.Store(ctx)
	if err != nil {
		return schemas.Event{}, err
	}
	node, err := access.FromContext(ctx).Restrict(kql.FieldIs("event.id", id))
	if err != nil {
		return schemas.Event{}, err
	}
	for e, err := range store.Events(ctx, eventstore.Selection{Query: node, Limit: 1, WithoutBody: !withBody}) {
		return e, err
	}
	if err := store.Check(ctx); err != nil {
		return schemas.Event{}, err
	}
	return schemas.Event{}, problem.NotFound("no event has the id " + id)
}
