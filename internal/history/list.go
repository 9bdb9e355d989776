package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// MessageState is the state of a message: at the queue where it needs most attention, as a
// QueueState, or Unreported.
type MessageState string

// Unreported is the state of a message about which no consumer has reported: it was published,
// and perhaps no queue has got it.
const Unreported MessageState = "published"

// stateOf returns the state of a message with states at some queues.
func stateOf(queues []AtQueue) MessageState {
	state := Unreported
	for i, at := range queues {
		if i == 0 || attention(at.State) < attention(QueueState(state)) {
			state = MessageState(at.State)
		}
	}
	return state
}

// ListedMessage is a message of a list.
type ListedMessage struct {
	Life          // at most the events that FindStream reads of a message; without bodies and headers
	State         MessageState
	Queues        []AtQueue
	Matched       time.Time // of its newest event that matches the query, which is its place in the list
	Failure       schemas.Event
	HasFailed     bool
	Attempts      int // number of the latest attempt; 0: none is known
	First, Latest schemas.Event
}

// MessageListPage selects a page of the messages with events that match a query, each once, those with
// the newest such events first.
type MessageListPage struct {
	Query  kql.Node      // nil: every event
	Cursor MessageCursor // of the page before; with UpTo alone: the first page
	Limit  int           // messages
}

// MessageCursor is a place in a list of messages. Events with a sequence above UpTo, which are stored
// while pages are read, are not in the list, so that no message changes its place between two pages.
type MessageCursor struct {
	UpTo  int64             `json:"up_to"` // 0: no limit
	After eventstore.Cursor `json:"after"`
}

// MessageList is a page of a list. It may have fewer messages than its limit, also when there are
// more, since a page reads a bounded number of events.
type MessageList struct {
	Messages   []ListedMessage
	Next       MessageCursor // zero: this is the last page
	Unreadable int           // documents that cannot be read, and are left out
}

// A page reads at most eventsPerListed events for each message of its limit, to find the messages: many
// events of the query may be about a few messages.
const (
	eventsPerListed = 40
	eventsPerRead   = 4
)

// ListMessages returns a page of messages, with what became of each.
func ListMessages(ctx context.Context, store EventStore, page MessageListPage, reporters Reporters) (MessageList, error) {
	list := listReader{store: store, page: page, known: map[string]bool{}, last: page.Cursor.After, width: eventsPerRead * page.Limit}
	for list.goesOn() {
		if err := list.more(ctx); err != nil {
			return MessageList{}, err
		}
	}
	found := MessageList{Unreadable: list.unreadable}
	if !list.ended {
		found.Next = MessageCursor{page.Cursor.UpTo, list.last}
	}
	var err error
	found.Messages, err = list.messages(ctx, reporters)
	return found, err
}

// listReader finds the messages of a page.
type listReader struct {
	store EventStore
	page  MessageListPage

	found       []schemas.Event   // the newest matching event of each message
	known       map[string]bool   // fingerprints of found, and of messages of earlier pages
	last        eventstore.Cursor // of the last event that belongs to this page or to earlier ones
	read        int               // documents
	width       int               // of the next read
	unreadable  int               // before last
	full, ended bool              // the page has its limit; there are no further events
}

// goesOn reports whether the page needs another read. A document that cannot be read has no cursor, so
// that a page reads until it can end after an event: else the next page would be the same.
func (r *listReader) goesOn() bool {
	hasBegun := r.last != r.page.Cursor.After
	return !r.full && !r.ended && (!hasBegun || r.read < eventsPerListed*r.page.Limit)
}

// more reads some events and adds their messages.
func (r *listReader) more(ctx context.Context) error {
	events, unreadable, err := r.events(ctx)
	if err != nil {
		return err
	}
	if err := r.leaveOutListed(ctx, events); err != nil {
		return err
	}
	for i, e := range events {
		if e.Fingerprint != "" && !r.known[e.Fingerprint] {
			if len(r.found) == r.page.Limit {
				r.full, r.ended = true, false
				return nil
			}
			r.known[e.Fingerprint] = true
			r.found = append(r.found, e)
		}
		r.last = eventstore.CursorAt(e)
		r.unreadable += unreadable[i]
	}
	if r.ended {
		r.unreadable += unreadable[len(events)]
	}
	return nil
}

// events reads the next events of the query, up to the message that would be one too many. unreadable are
// the numbers of documents before each event, and after the last one, that cannot be read. Those after the
// last one are read again, in a wider read if there is no event.
func (r *listReader) events(ctx context.Context) (events []schemas.Event, unreadable []int, err error) {
	most := r.width
	selection := eventstore.Selection{Query: r.page.Query, Limit: most, After: r.last, UpTo: r.page.Cursor.UpTo, WithoutBody: true}
	added, read := map[string]bool{}, 0
	unreadable = []int{0}
	for e, err := range r.store.Events(ctx, selection) {
		read++
		if storeread.EndsRead(err) {
			return nil, nil, err
		}
		if err != nil {
			unreadable[len(events)]++
			continue
		}
		if e.Action.OfNoMessage() {
			e.Fingerprint = ""
		}
		e.Envelope.Headers, e.Failure.Stack = nil, ""
		events, unreadable = append(events, e), append(unreadable, 0)
		if e.Fingerprint != "" && !r.known[e.Fingerprint] {
			added[e.Fingerprint] = true
		}
		if len(r.found)+len(added) > r.page.Limit || len(events) == eventsPerRead*r.page.Limit {
			r.read += read
			return events, unreadable, nil
		}
	}
	r.read += read
	r.ended = read < most
	if len(events) == 0 {
		r.width *= 2
	}
	return events, unreadable, ctx.Err()
}

// leaveOutListed marks the messages of some events that earlier pages have: those with a matching
// event before the place at which this page begins.
func (r *listReader) leaveOutListed(ctx context.Context, events []schemas.Event) error {
	begin := r.page.Cursor.After
	if begin == (eventstore.Cursor{}) {
		return nil
	}
	candidates := map[string]bool{}
	for _, e := range events {
		if e.Fingerprint != "" && !r.known[e.Fingerprint] {
			candidates[e.Fingerprint] = true
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	of := eventstore.FieldIn{Field: "watership.fingerprint"}
	for fingerprint := range candidates {
		of.Values = append(of.Values, fingerprint)
	}
	slices.Sort(of.Values)
	for e, err := range r.store.Summaries(ctx, eventstore.Selection{Query: r.page.Query, UpTo: r.page.Cursor.UpTo}, of) {
		if err != nil {
			return err
		}
		if cmp.Or(e.Time.Compare(begin.Time), cmp.Compare(e.Sequence, begin.Sequence)) >= 0 && !e.Action.OfNoMessage() {
			r.known[e.Fingerprint] = true
		}
	}
	return ctx.Err()
}

// messages reads what became of the messages that were found.
func (r *listReader) messages(ctx context.Context, reporters Reporters) ([]ListedMessage, error) {
	if len(r.found) == 0 {
		return nil, nil
	}
	fingerprints := make([]string, len(r.found))
	for i, e := range r.found {
		fingerprints[i] = e.Fingerprint
	}
	lives, err := livesReader{r.store}.lives(ctx, fingerprints)
	if err != nil {
		return nil, err
	}
	queues, err := queuesOf(ctx, r.store, lives, reporters)
	if err != nil {
		return nil, err
	}
	messages := make([]ListedMessage, len(lives))
	for i, l := range lives {
		if len(l.Events) == 0 { // it was too old by then
			l.Events = []schemas.Event{r.found[i]}
		}
		messages[i] = newListedMessage(l, queues[i])
		messages[i].Matched = r.found[i].Time
	}
	return messages, nil
}

func newListedMessage(l Life, queues []AtQueue) ListedMessage {
	m := ListedMessage{Life: l, State: stateOf(queues), Queues: queues, First: l.Events[0], Latest: l.Events[len(l.Events)-1]}
	for _, e := range l.Events {
		m.Attempts = max(m.Attempts, e.Attempt)
		if action := e.RecordedAction(); action == schemas.RetryScheduled || action == schemas.Poisoned {
			m.Failure, m.HasFailed = e, true
		}
	}
	return m
}
