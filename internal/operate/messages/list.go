package messages

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// ListMessages declares the operation.
var ListMessages = operation.Declare[ListInput, ListOutput](operation.Operation{
	Method: http.MethodGet, Path: "/messages", ID: "listMessages", Tag: "messages", Role: access.Viewer, Reads: true,
	Summary: "List the messages with events that match a query, each once, with its state",
	Text:    "Those with the newest such events come first. A page may have fewer messages than the limit. There are more if it has a cursor.",
})

// ListInput is the input of ListMessages.
type ListInput struct {
	eventfilter.QueryFilter
	Fields []string `query:"fields" maxItems:"50" doc:"Fields to return besides, by full or short names, as headers and fields of bodies"`
	Limit  int      `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of messages"`
	Cursor string   `query:"cursor" maxLength:"2000" pattern:"^[A-Za-z0-9_-]*$" doc:"Cursor of the page before, for the same query"`
}

// ListOutput is the output of ListMessages.
type ListOutput struct{ Body ListedPage }

// ListedPage is a page of a list of messages.
type ListedPage struct {
	Messages   []Listed `json:"messages" nullable:"false"`
	Cursor     string   `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
	Unreadable int      `json:"unreadable,omitempty" doc:"Number of documents that cannot be read, and are left out"`
}

// Listed is a message of a list.
type Listed struct {
	Fingerprint string               `json:"fingerprint"`
	MessageID   string               `json:"message_id,omitempty"`
	Exchange    string               `json:"exchange"`
	RoutingKey  string               `json:"routing_key"`
	Type        string               `json:"type,omitempty"`
	State       history.MessageState `json:"state" enum:"failed,waiting,replaying,replayed,handled,discarded,published" doc:"At the queue that needs most attention; published: no consumer has reported about it"`
	Queues      []history.AtQueue    `json:"queues" nullable:"false" doc:"Its state at each queue that reported about it"`
	Attempts    int                  `json:"attempts,omitempty" doc:"Number of the latest attempt"`
	First       time.Time            `json:"first" doc:"Time of its first event"`
	Last        time.Time            `json:"last" doc:"Time of its latest event"`
	Events      int                  `json:"events" doc:"Number of its events"`
	Error       string               `json:"error,omitempty" doc:"Of its latest failure, also of one that is resolved"`
	ErrorType   string               `json:"error_type,omitempty"`
	Values      map[string]any       `json:"values,omitempty" doc:"Values of the fields that were asked for, by their full names: of the newest event that has the field; stack traces: of its latest failure; fields of bodies: of the first 8 MiB of bodies of a page"`
}

// lists are the functions of the operations on lists of messages.
type lists struct{ operations }

func (o lists) listMessages(ctx context.Context, in *ListInput) (*ListOutput, error) {
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	fields, err := fieldNames(o.System, in.Fields)
	if err != nil {
		return nil, err
	}
	if namesBody(fields) {
		if err := access.ReadBodies(ctx, in.Object()); err != nil {
			return nil, err
		}
	}
	page := history.MessageListPage{Query: sel.Query, Limit: in.Limit}
	if page.Cursor, err = operation.ParseCursor[history.MessageCursor](in.Cursor); err != nil {
		return nil, err
	}
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	if page.Cursor.UpTo == 0 {
		if page.Cursor.UpTo, err = store.HighestSequence(ctx); err != nil {
			return nil, err
		}
	}
	visible, err := eventfilter.Visible(ctx, o.System)
	if err != nil {
		return nil, err
	}
	found, err := history.ListMessages(ctx, visible, page, o.reporters)
	if err == nil && len(found.Messages) == 0 && in.Cursor == "" {
		err = store.Check(ctx) // may be the reason
	}
	if err != nil {
		return nil, err
	}
	out := &ListOutput{ListedPage{Messages: make([]Listed, len(found.Messages)), Unreadable: found.Unreadable}}
	for i, m := range found.Messages {
		out.Body.Messages[i] = newListed(m)
	}
	if found.Next != (history.MessageCursor{}) {
		out.Body.Cursor = operation.FormatCursor(found.Next)
	}
	return out, addValues(ctx, visible, o.documentOf(ctx), out.Body.Messages, found.Messages, fields)
}

func newListed(m history.ListedMessage) Listed {
	of := m.First.Envelope
	return Listed{
		Fingerprint: m.First.Fingerprint, MessageID: of.Properties.MessageID, Exchange: of.Exchange, RoutingKey: of.RoutingKey, Type: of.Properties.Type,
		State: m.State, Queues: m.Queues, Attempts: m.Attempts, First: m.First.Time, Last: m.Latest.Time, Events: len(m.Events),
		Error: m.Failure.Failure.Message, ErrorType: m.Failure.Failure.Type,
	}
}

// addValues adds the values of fields, of the newest event that has the field. Headers and bodies come
// from one event that has the body, and stack traces from the latest failure.
func addValues(ctx context.Context, store history.EventStore, documentOf func(schemas.Event) eventjson.Document, to []Listed, of []history.ListedMessage, fields []string) error {
	if len(fields) == 0 || len(of) == 0 {
		return nil
	}
	whole, err := wholeEvents(ctx, store, of, namesBody(fields))
	if err != nil {
		return err
	}
	if slices.Contains(fields, "error.stack_trace") {
		if err := addStacks(ctx, store, of); err != nil {
			return err
		}
	}
	for i, m := range of {
		if to[i].Values, err = valuesOf(newestFirst(m, whole[i], documentOf), fields); err != nil {
			return err
		}
	}
	return nil
}

// valuesOf returns the values of fields, each of the first document that has it.
func valuesOf(documents iter.Seq2[columns.Document, error], fields []string) (map[string]any, error) {
	values, missing := map[string]any{}, slices.Clone(fields)
	for document, err := range documents {
		if err != nil {
			return nil, err
		}
		missing = slices.DeleteFunc(missing, func(field string) bool {
			value, found := document.At(field)
			if found {
				values[field] = value
			}
			return found
		})
		if len(missing) == 0 {
			break
		}
	}
	return values, nil
}

// newestFirst yields the documents of a message's events, the one of the whole event last. A message may have many
// events, and a list many messages, so that a document is made when it is asked for.
func newestFirst(m history.ListedMessage, whole schemas.Event, documentOf func(schemas.Event) eventjson.Document) iter.Seq2[columns.Document, error] {
	return func(yield func(columns.Document, error) bool) {
		for _, e := range slices.Backward(m.Events) {
			if !yield(columns.Parse(documentOf(e))) {
				return
			}
		}
		yield(columns.Parse(documentOf(whole)))
	}
}

// wholeEvents reads an event with headers of each message: one that has the body, else the first. If those
// with bodies are too large, the others lack them.
func wholeEvents(ctx context.Context, store history.EventStore, of []history.ListedMessage, withBody bool) ([]schemas.Event, error) {
	events, lacking := make([]schemas.Event, len(of)), map[string][]*schemas.Event{}
	for i, m := range of {
		events[i] = m.WithBody()
		id := events[i].EventID
		lacking[id] = append(lacking[id], &events[i])
	}
	if withBody {
		if err := readStored(ctx, store, lacking, true); err != nil {
			return nil, err
		}
	}
	return events, readStored(ctx, store, lacking, false)
}

// addStacks adds the stack trace of each message's latest failure, since lives have none.
func addStacks(ctx context.Context, store history.EventStore, of []history.ListedMessage) error {
	failures, lacking := make([]schemas.Event, len(of)), map[string][]*schemas.Event{}
	for i, m := range of {
		if m.HasFailed {
			lacking[m.Failure.EventID] = append(lacking[m.Failure.EventID], &failures[i])
		}
	}
	if err := readStored(ctx, store, lacking, false); err != nil {
		return err
	}
	for i, m := range of {
		for j, e := range m.Events {
			if e.EventID == failures[i].EventID {
				m.Events[j].Failure.Stack = failures[i].Failure.Stack
			}
		}
	}
	return nil
}

// readStored reads the events with the ids of lacking, which has the places for each, and removes them from it. It ends
// after maxPageBytes of bodies; a single one can be larger.
func readStored(ctx context.Context, store history.EventStore, lacking map[string][]*schemas.Event, withBody bool) error {
	if len(lacking) == 0 {
		return nil
	}
	var either kql.Or
	for _, id := range slices.Sorted(maps.Keys(lacking)) {
		either = append(either, kql.FieldIs("event.id", id))
	}
	size := 0
	for e, err := range storeread.Readable(store.Events(ctx, eventstore.Selection{Query: either, Limit: len(either), WithoutBody: !withBody})) {
		if err != nil {
			return err
		}
		for _, to := range lacking[e.EventID] {
			*to = e
		}
		delete(lacking, e.EventID)
		if size += len(e.Envelope.Body); size > maxPageBytes {
			break
		}
	}
	return ctx.Err()
}

// Name returns the id by which people know a message: the publisher's, or the beginning of its
// fingerprint.
func (m Listed) Name() string {
	if m.MessageID != "" {
		return m.MessageID
	}
	if hash, is := strings.CutPrefix(m.Fingerprint, "v1:"); is && len(hash) > 12 {
		return hash[:12]
	}
	return m.Fingerprint
}
