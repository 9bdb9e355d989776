package replayer

import (
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

const (
	eventBatchSize  = 100       // messages whose events are published as one message
	eventBatchBytes = 128 << 10 // of events, before they are compressed
)

// eventBatch holds confirmed and failed messages in order. The `replayed` events of
// the confirmed ones are published as one message: one message for each event would
// cost the broker as much as the replayed messages.
type eventBatch struct {
	messages []*inFlight
	pending  *rabbit.Pending // the confirm of the events; nil without events
	err      error
}

func newEventBatch() *eventBatch { return &eventBatch{messages: make([]*inFlight, 0, eventBatchSize)} }

// confirm waits for the confirm of each message and then publishes its `replayed`
// event. A crash between the two may send a message twice; in the reverse order the
// message would count as sent and be lost. An event never waits for a message that is
// not confirmed yet.
func (run *run) confirm() {
	defer close(run.confirmed)
	batch := newEventBatch()
	var events wire.Bundle
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
		if m.pending != nil {
			m.err = m.pending.Wait(run.confirming)
		}
		if m.isWithoutQueue() {
			flush() // no event waits for this message
			m.err = run.lease.Delivery.Deliver(run.confirming, m.sent, m.state)
		}
		m.endSpan(run.replayer.now)
		run.unconfirmedBytes.Release(m.bytes)
		if m.err == nil && m.needsSending() {
			events.Add(run.replayedEvent(m))
		}
		// Until it is counted, which may take long in order, the message keeps nothing that has its body.
		m.sent.Body, m.event.Envelope.Body, m.pending, m.span = nil, nil, nil, nil
		batch.messages = append(batch.messages, m)
		if len(run.published) == 0 {
			flush()
		}
	}
	flush()
}

func (m *inFlight) endSpan(now func() time.Time) {
	var why *schemas.Failure
	switch {
	case m.span == nil:
		return
	case m.err != nil:
		why = &schemas.Failure{Message: m.problem()}
	}
	m.span.End(now(), why)
}

func (m *inFlight) ready() bool { return m.pending == nil || m.pending.Ready() }

// isWithoutQueue reports whether the broker returned the message, which was for one queue and was published
// without looking for its binding: the queue may have been deleted and declared again since the
// first message.
func (m *inFlight) isWithoutQueue() bool {
	var unbound *rabbit.UnroutableError
	return m.pending != nil && m.state.Queue != "" && errors.As(m.err, &unbound)
}

// replayedEvent is the `replayed` event of a sent message. Its id derives from the job
// and the original event, so that a repetition is the same document. It has the
// fingerprint of the original message, and no body, since the store has the body. It
// names a queue only if the message was sent to one queue.
func (run *run) replayedEvent(m *inFlight) schemas.Event {
	state := m.state
	state.EventID = wire.DerivedID(state.Replay, state.ReplayOf)
	state.Fingerprint, state.Message, state.Stream = m.event.Fingerprint, m.event.Message, m.event.Stream
	return schemas.Event{
		State: state, Action: schemas.Replayed,
		Envelope: m.event.Envelope, BodySize: len(m.event.Envelope.Body), BodyIn: schemas.BodyInPublished,
	}
}

func (run *run) publishEvents(batch *eventBatch, events *wire.Bundle) {
	if events.Len() == 0 {
		return
	}
	batch.pending, batch.err = run.lease.Publisher.Send(run.confirming, run.replayer.cfg.sign(rabbit.Message{
		Exchange:   run.replayer.cfg.Topology.Events(),
		RoutingKey: string(schemas.Replayed),
		Publishing: events.Publishing(),
	}))
}

// confirmEvents waits for the confirms of the event batches.
func (run *run) confirmEvents() {
	defer close(run.recorded)
	for batch := range run.confirmed {
		if batch.pending != nil {
			batch.err = batch.pending.Wait(run.confirming)
		}
		for _, m := range batch.messages {
			if m.err == nil && m.needsSending() {
				m.err = eventNotSent(m, batch.err)
			}
			run.recorded <- m
		}
	}
}

// eventNotSent does not wrap the error: an error of the events stops the job, even of
// a type that concerns one message.
func eventNotSent(m *inFlight, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the message of event %s was sent, but its replayed event was not: %v", m.event.EventID, err)
}
