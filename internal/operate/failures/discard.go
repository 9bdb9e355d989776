package failures

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// discardChunk is the number of failures that one query finds by their ids.
const discardChunk = 500

// discardResult is the number of failures whose `discarded` events are confirmed, and the
// queues at which they failed, sorted.
type discardResult struct {
	Failures int
	Queues   []string
}

// discardAll publishes a `discarded` event for each failure, by event id.
func discardAll(ctx context.Context, sys *system.System, ids []string, decision reason.Decision) (discardResult, error) {
	if err := reason.Need(decision.Reason); err != nil {
		return discardResult{}, system.InputError{Err: err}
	}
	events, err := sys.Store(ctx)
	if err != nil {
		return discardResult{}, err
	}
	publisher, err := sys.Publisher(ctx)
	if err != nil {
		return discardResult{}, err
	}
	d := discarding{System: sys, Decision: decision, events: events, publisher: publisher, queues: map[string]bool{}}
	confirmed := 0
	for chunk := range slices.Chunk(ids, discardChunk) {
		n, chunkErr := d.publish(ctx, chunk)
		confirmed += n
		if err = chunkErr; err != nil {
			break
		}
	}
	return discardResult{confirmed, slices.Sorted(maps.Keys(d.queues))}, err
}

type discarding struct {
	*system.System
	reason.Decision
	events    system.EventStore
	publisher *rabbit.Publisher
	queues    map[string]bool // of the failures
}

// publish returns when the broker has confirmed the events, also those before an error.
func (d discarding) publish(ctx context.Context, ids []string) (confirmed int, err error) {
	var either kql.Or
	for _, id := range ids {
		either = append(either, kql.FieldIs("event.id", id))
	}
	failures := d.events.Events(ctx, eventstore.Selection{Query: either, Order: eventstore.BySequence})
	sent, err := d.send(ctx, failures)
	for _, pending := range sent {
		switch waited := pending.Wait(ctx); {
		case waited == nil:
			confirmed++
		case err == nil: // further errors have the same cause as a rule
			err = waited
		}
	}
	return confirmed, err
}

// send ends with the first failure that cannot be read or sent.
func (d discarding) send(ctx context.Context, failures iter.Seq2[schemas.Event, error]) (sent []*rabbit.Pending, err error) {
	for e, err := range failures {
		if err != nil {
			return sent, err
		}
		pending, err := d.publisher.Send(ctx, d.Sign(rabbit.Message{
			Exchange: d.Topology().Events(), RoutingKey: string(schemas.Discarded),
			Publishing: wire.DefaultFrameMax.WrapWithoutBody(e.Envelope, d.state(e, time.Now()),
				wire.OmittedBody{Size: len(e.Envelope.Body), In: schemas.BodyInPublished}),
		}))
		if err != nil {
			return sent, err
		}
		sent = append(sent, pending)
		if e.Queue != "" {
			d.queues[e.Queue] = true
		}
	}
	return sent, nil
}

// discardID derives the id of a `discarded` event from the id of its failure, so that a
// repeat is the same document.
func discardID(failure string) string { return wire.DerivedID("discarded", failure) }

// state returns the state of a failure's `discarded` event.
func (d discarding) state(e schemas.Event, now time.Time) schemas.State {
	return schemas.State{
		EventID: discardID(e.EventID), Time: now, ReplayOf: e.EventID,
		Fingerprint: e.Fingerprint, Message: e.Message, Queue: e.Queue, Attempt: e.Attempt, FirstFailed: e.FirstFailed, Stream: e.Stream,
		Failure: schemas.Failure{Type: string(schemas.Discarded), Message: d.Text()},
	}
}

// awaitDiscarded waits until the store has the `discarded` events of failures, so that a
// replay leaves the failures out. After ten seconds it returns how many are missing:
// probably no server stores them.
func awaitDiscarded(ctx context.Context, sys *system.System, ids []string) (missing int, err error) {
	events, err := sys.Store(ctx)
	if err != nil {
		return 0, err
	}
	written := make([]string, len(ids))
	for i, id := range ids {
		written[i] = discardID(id)
	}
	return history.AwaitStored(ctx, events, written)
}
