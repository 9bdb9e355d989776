// Package waiting lists the messages that wait in delay queues for their next attempt, and
// carries out decisions of operators about them. docs/decisions/0032 has the reasons.
package waiting

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// WaitingMessage is a message that waits for its next attempt.
type WaitingMessage struct {
	ID          string    `json:"id" doc:"Instance id, by which it is named"`
	EventID     string    `json:"event_id" doc:"Event that says since when it waits"`
	MessageID   string    `json:"message_id,omitempty" doc:"The publisher's id"`
	Fingerprint string    `json:"fingerprint"`
	Queue       string    `json:"queue"`
	Attempt     int       `json:"attempt" doc:"Attempts that failed"`
	Class       string    `json:"class,omitempty"`
	Type        string    `json:"type,omitempty" doc:"Type of the error"`
	Error       string    `json:"error,omitempty"`
	Reason      Reason    `json:"reason" enum:"failed,key_failed" doc:"failed: its attempt failed, with the error; key_failed: it was not tried, since other messages of its key fail, with their error"`
	Group       string    `json:"error_group,omitempty"`
	Since       time.Time `json:"since"`
	Due         time.Time `json:"due" doc:"Time of the next attempt"`
	Postponed   bool      `json:"postponed,omitempty" doc:"An operator has set the time"`
	FirstFailed time.Time `json:"first_failed,omitzero" doc:"When its first attempt failed"`
	Key         string    `json:"key,omitempty" doc:"Its key, if its route keeps an order and the key is not in the body"`
	Order       Order     `json:"order,omitempty" enum:"first,later" doc:"first: the later messages of its key wait until it is handled or given up; later: it waits for an earlier message of its key"`

	wait     string // identifies its wait
	sequence int64  // of the event since which it waits
}

// began returns when the first attempt of the message failed. Of one that was not tried yet, it is when
// it began to wait.
func (m WaitingMessage) began() time.Time {
	if m.FirstFailed.IsZero() {
		return m.Since
	}
	return m.FirstFailed
}

// Reason is why a message waits. Its values are stable.
type Reason string

// The reasons.
const (
	Failed    Reason = "failed"     // its attempt failed
	KeyFailed Reason = "key_failed" // other messages of its key fail, and it was not tried
)

// reasonOf returns why the message of an event waits.
func reasonOf(s schemas.State) Reason {
	if s.AwaitsKey() {
		return KeyFailed
	}
	return Failed
}

// Store reads events.
type Store interface {
	Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error]
	Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
}

// chunkSize is the number of messages whose later events one request reads.
const chunkSize = 1000

// List yields the messages that wait at a time and match a query, in the order in which
// their waits began. It reads the events of waits that are not over by then, and drops
// those that are followed by another event of the message at its queue, and documents that cannot be
// read. In orders are the routes that keep an order.
func List(ctx context.Context, store Store, orders Orders, query kql.Node, now time.Time) iter.Seq2[WaitingMessage, error] {
	selection := eventstore.Selection{Query: kql.And{waitsAt(now), query}, Order: eventstore.BySequence, WithoutBody: true}
	if query == nil {
		selection.Query = waitsAt(now)
	}
	return func(yield func(WaitingMessage, error) bool) {
		var chunk []schemas.Event
		for e, err := range storeread.Readable(store.Events(ctx, selection)) {
			if err != nil {
				yield(WaitingMessage{}, fmt.Errorf("reading waiting messages: %w", err))
				return
			}
			if e.Message == "" || !e.Time.Add(e.Delay).After(now) {
				continue
			}
			if chunk = append(chunk, e); len(chunk) < chunkSize {
				continue
			}
			if !yieldWaiting(ctx, store, orders, chunk, yield) {
				return
			}
			chunk = chunk[:0]
		}
		yieldWaiting(ctx, store, orders, chunk, yield)
	}
}

// yieldWaiting yields the messages of events that are the latest of their messages. It
// returns false after an error, and when the consumer of the sequence stops.
func yieldWaiting(ctx context.Context, store Store, orders Orders, chunk []schemas.Event, yield func(WaitingMessage, error) bool) bool {
	if len(chunk) == 0 {
		return true
	}
	ids := make([]string, len(chunk))
	for i, e := range chunk {
		ids[i] = e.Message
	}
	latest := map[string]int64{}
	selection := eventstore.Selection{Query: withActions(schemas.RetryScheduled, schemas.Rescheduled, schemas.Handled, schemas.Poisoned, schemas.Discarded)}
	for e, err := range store.Summaries(ctx, selection, eventstore.FieldIn{Field: "watership.message", Values: ids}) {
		if err != nil {
			yield(WaitingMessage{}, fmt.Errorf("reading the later events of waiting messages: %w", err))
			return false
		}
		latest[e.Message] = max(latest[e.Message], e.Sequence)
	}
	for _, e := range chunk {
		if e.Sequence < latest[e.Message] {
			continue
		}
		m := newMessage(e)
		if m.Key, m.Order = orders.find(e); !yield(m, nil) {
			return false
		}
	}
	return true
}

func newMessage(e schemas.Event) WaitingMessage {
	return WaitingMessage{
		ID: e.Message, EventID: e.EventID, MessageID: e.Envelope.Properties.MessageID, Fingerprint: e.Fingerprint,
		Queue: e.Queue, Attempt: e.Attempt, Class: e.Failure.Class, Type: e.Failure.Type, Error: e.Failure.Message, Reason: reasonOf(e.State), Group: e.ErrorGroup(),
		Since: e.Time, Due: e.Time.Add(e.Delay), Postponed: e.Action == schemas.Rescheduled, FirstFailed: e.FirstFailed,
		wait: waitOf(e.State), sequence: e.Sequence,
	}
}

// waitOf identifies the wait of a message after a failed attempt.
func waitOf(s schemas.State) string { return fmt.Sprintf("%s:%d:%d", s.Message, s.Attempt, s.Waits) }

// MaxPostponement is the longest time by which an attempt can be postponed.
const MaxPostponement = 30 * 24 * time.Hour

// waitsAt returns a query for the events of waits that may not be over at a time: all of
// these, and some whose delay ends a little before.
func waitsAt(now time.Time) kql.Node {
	var either kql.Or
	longest := time.Duration(0)
	for _, delay := range append(retry.StandardDelays(), MaxPostponement, longestDelay) {
		either = append(either, kql.And{
			kql.Range{Field: kql.Pattern{"watership.delay"}, Op: kql.Greater, Value: exactly(strconv.FormatInt(longest.Milliseconds(), 10))},
			kql.Range{Field: kql.Pattern{"watership.delay"}, Op: kql.LessOrEqual, Value: exactly(strconv.FormatInt(delay.Milliseconds(), 10))},
			kql.Range{Field: kql.Pattern{"@timestamp"}, Op: kql.GreaterOrEqual, Value: exactly(now.Add(-delay).UTC().Format(time.RFC3339Nano))},
		})
		longest = delay
	}
	return kql.And{withActions(schemas.RetryScheduled, schemas.Rescheduled), either}
}

func exactly(text string) kql.Value { return kql.Value{Pattern: kql.Pattern{text}, Quoted: true} }

// longestDelay is the longest that a message can wait in a queue of RabbitMQ.
const longestDelay = (1<<32 - 1) * time.Millisecond

func withActions(actions ...schemas.Action) kql.Node {
	var either kql.Or
	for _, action := range actions {
		either = append(either, kql.FieldIs("event.action", string(action)))
	}
	return either
}
