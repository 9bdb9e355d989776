package replayer

import (
	"fmt"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

const (
	eventBatchSize  = 100       // messages whose events travel together
	eventBatchBytes = 128 << 10 // of events, before they are compressed
)

// eventBatch is messages that have an outcome, in order. The `replayed` events of
// those that were sent travel together, in one message: alone, each would cost
// the broker as much as the message that it is about.
type eventBatch struct {
	messages []*inFlight
	pending  *rabbit.Pending // the events; nil where there are none
	err      error
}

func newEventBatch() *eventBatch { return &eventBatch{messages: make([]*inFlight, 0, eventBatchSize)} }

// confirm waits until each message is safe, and then publishes its event. In
// this order a crash between them may send a message twice; in the other it
// would count as sent and never be. No event waits for a message that is not
// safe yet.
func (run *run) confirm() {
	defer close(run.confirmed)
	batch := newEventBatch()
	var events schemas.Bundle
	flush := func() {
		if len(batch.messages) > 0 {
			run.publishEvents(batch, &events)
			run.confirmed <- batch
			batch = newEventBatch()
		}
	}
	for m := range run.published {
		if len(batch.messages) >= eventBatchSize || events.Size() >= eventBatchBytes || !m.ready() {
			flush()
		}
		run.awaitConfirm(m)
		if m.err == nil && m.toSend() {
			events.Add(run.replayedEvent(m))
		}
		m.sent.Body, m.event.Envelope.Body = nil, nil
		batch.messages = append(batch.messages, m)
		if len(run.published) == 0 {
			flush()
		}
	}
	flush()
}

func (m *inFlight) ready() bool { return m.pending == nil || m.pending.Ready() }

// awaitConfirm waits for the outcome of a message.
func (run *run) awaitConfirm(m *inFlight) {
	if m.pending != nil {
		m.err = m.pending.Wait(run.confirming)
	}
	run.bytes.Release(m.bytes)
}

// replayed is the event of a message that was sent. Its id is the job's and the
// event's, so that a repeat is the same document. It is about the message that was
// kept, whose fingerprint it has, and leaves the body out, which the store has. It
// names a queue only where the message went to that one alone.
func (run *run) replayedEvent(m *inFlight) schemas.Event {
	state := m.state
	state.EventID = schemas.DerivedID(state.Replay, state.ReplayOf)
	state.Fingerprint, state.Message = m.event.Fingerprint, m.event.Message
	return schemas.Event{
		State: state, Action: schemas.Replayed,
		Envelope: m.event.Envelope, BodySize: len(m.event.Envelope.Body), BodyIn: schemas.BodyInPublished,
	}
}

func (run *run) publishEvents(batch *eventBatch, events *schemas.Bundle) {
	if events.Len() == 0 {
		return
	}
	batch.pending, batch.err = run.lease.publisher.Send(run.confirming, run.replayer.sign(rabbit.Message{
		Exchange:   run.replayer.cfg.Topology.Events(),
		RoutingKey: string(schemas.Replayed),
		Publishing: events.Publishing(),
	}))
}

// confirmEvents waits until the events are safe.
func (run *run) confirmEvents() {
	defer close(run.recorded)
	for batch := range run.confirmed {
		if batch.pending != nil {
			batch.err = batch.pending.Wait(run.confirming)
		}
		for _, m := range batch.messages {
			if m.err == nil && m.toSend() {
				m.err = eventNotSent(m, batch.err)
			}
			run.recorded <- m
		}
	}
}

// eventNotSent hides what kind of error it is: it stops the job, since the next
// event would not arrive either.
func eventNotSent(m *inFlight, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the message of event %s was sent, but its replayed event was not: %v", m.event.EventID, err)
}
