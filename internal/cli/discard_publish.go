package cli

import (
	"context"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// publish says of each failure that it is discarded, and waits until the broker
// has all of it.
func (d discard) publish(ctx context.Context, s system, store eventStore, publisher *rabbit.Publisher, ids []string) (confirmed int, err error) {
	var either kql.Or
	for _, id := range ids {
		either = append(either, is("event.id", id))
	}
	failures := store.Events(ctx, eventstore.Selection{Query: either, Order: eventstore.BySequence})
	sent, err := d.send(ctx, s, failures, publisher)
	for _, pending := range sent { // also where not all of them were
		switch waited := pending.Wait(ctx); {
		case waited == nil:
			confirmed++
		case err == nil: // what is wrong with others is the same as a rule
			err = waited
		}
	}
	return confirmed, err
}

// send ends with the first failure that cannot be read or sent.
func (d discard) send(ctx context.Context, s system, failures iter.Seq2[schemas.Event, error], publisher *rabbit.Publisher) (sent []*rabbit.Pending, err error) {
	for e, err := range failures {
		if err != nil {
			return sent, err
		}
		pending, err := publisher.Send(ctx, s.signed(rabbit.Message{
			Exchange: s.topology.Events(), RoutingKey: string(schemas.Discarded),
			Publishing: schemas.DefaultFrameMax.WrapWithoutBody(e.Envelope, d.state(e, time.Now()),
				schemas.OmittedBody{Size: len(e.Envelope.Body), In: schemas.BodyInPublished}),
		}))
		if err != nil {
			return sent, err
		}
		sent = append(sent, pending)
	}
	return sent, nil
}

// discardID is the id of the `discarded` event of a failure. It follows from the
// failure's, so that a repeat is the same document.
func discardID(failure string) string { return schemas.DerivedID("discarded", failure) }

// state is the state of the `discarded` event of a failure.
func (d discard) state(e schemas.Event, now time.Time) schemas.State {
	return schemas.State{
		EventID: discardID(e.EventID), Time: now, ReplayOf: e.EventID,
		Fingerprint: e.Fingerprint, Message: e.Message, Queue: e.Queue, Attempt: e.Attempt, FirstFailed: e.FirstFailed,
		Failure: schemas.Failure{Type: string(schemas.Discarded), Message: d.reason + " (" + operator() + ")"},
	}
}
