package subjects

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// Field is the field of events that has the hashes of their subjects.
const Field = "watership.subject"

// Query returns a query for the events that name a subject.
func Query(hashes []string) kql.Node {
	var either kql.Or
	for _, hash := range hashes {
		either = append(either, kql.FieldIs(Field, hash))
	}
	return either
}

// report counts what there is of a subject. queues has its messages that failed, by queue.
func (o operations) report(ctx context.Context, hashes []string) (f SubjectRecord, queues map[string]int, err error) {
	f = SubjectRecord{Hashes: hashes, Waiting: map[string]int{}, Parked: []failures.ParkedCopies{}}
	store, err := o.system.Store(ctx)
	if err != nil {
		return f, nil, err
	}
	keys, err := store.SubjectKeys(ctx, hashes)
	if err != nil {
		return f, nil, err
	}
	f.Keys = len(keys)
	read := reading{store: store, found: &f, queues: map[string]int{}, messages: map[string]bool{}}
	if err := read.events(ctx, hashes); err != nil {
		return f, nil, err
	}
	if f.Events == 0 {
		return f, read.queues, store.Check(ctx) // may be the reason
	}
	if err := read.waiting(ctx, waiting.OrdersOf(o.system.Settings())); err != nil {
		return f, nil, err
	}
	f.Parked, f.Unasked, err = o.parked(ctx, read.queues)
	return f, read.queues, err
}

// parked returns the parking queues of some queues that have messages. It needs no RabbitMQ.
func (o operations) parked(ctx context.Context, queues map[string]int) (parked []failures.ParkedCopies, unasked bool, err error) {
	if o.system.NoBroker() != nil {
		return []failures.ParkedCopies{}, true, nil
	}
	found, err := failures.FindParkedCopies(ctx, o.system, slices.Sorted(maps.Keys(queues)))
	if _, away := errors.AsType[*system.BrokerError](err); away && ctx.Err() == nil {
		return []failures.ParkedCopies{}, true, nil
	}
	return append([]failures.ParkedCopies{}, found...), false, err
}

// reading reads the events of a subject.
type reading struct {
	store    system.EventStore
	found    *SubjectRecord
	queues   map[string]int  // of messages that were given up
	messages map[string]bool // by fingerprint
}

// fingerprintsAtOnce bounds the values of one request.
const fingerprintsAtOnce = 1000

func (r *reading) events(ctx context.Context, hashes []string) error {
	ids := map[string]bool{}
	for s, err := range r.store.Summaries(ctx, eventstore.Selection{Query: Query(hashes)}) {
		if err != nil {
			return err
		}
		ids[s.EventID], r.messages[s.Fingerprint] = true, true
		r.note(s)
	}
	r.found.Events, r.found.Messages = len(ids), len(r.messages)
	unstorable := kql.And{Query(hashes), kql.FieldIs("watership.body_in", string(schemas.BodyInUnstorable))}
	for _, err := range r.store.Summaries(ctx, eventstore.Selection{Query: unstorable}) {
		if err != nil {
			return err
		}
		r.found.Unstorable++
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(r.messages)), fingerprintsAtOnce) {
		of := eventstore.FieldIn{Field: "watership.fingerprint", Values: some}
		for s, err := range r.store.Summaries(ctx, eventstore.Selection{}, of) {
			if err != nil {
				return err
			}
			if !ids[s.EventID] {
				r.found.Others++
				r.note(s)
			}
		}
	}
	return nil
}

func (r *reading) note(s eventstore.EventSummary) {
	f := r.found
	if f.First == nil || s.Time.Before(*f.First) {
		f.First = &s.Time
	}
	if f.Last == nil || s.Time.After(*f.Last) {
		f.Last = &s.Time
	}
	if s.Action == schemas.Poisoned {
		r.queues[s.Queue]++
	}
}

func (r *reading) waiting(ctx context.Context, orders waiting.Orders) error {
	for m, err := range waiting.List(ctx, r.store, orders, nil, time.Now()) {
		if err != nil {
			return err
		}
		if r.messages[m.Fingerprint] {
			r.found.Waiting[m.Queue]++
		}
	}
	return nil
}
