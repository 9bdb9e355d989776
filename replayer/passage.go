package replayer

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// passage is a message on its way, until its `replayed` event is confirmed.
type passage struct {
	found
	state   schemas.State
	sent    schemas.Envelope
	late    bool // found after the cursor had gone by
	bytes   int64
	pending *rabbit.Pending // of the message; nil where there is nothing to wait for
	said    *rabbit.Pending // of the event
	err     error
}

// consider sends the message of an event, unless it is left out.
func (f *flight) consider(next found, late bool) error {
	switch {
	case next.leftOut != "" && next.leftOut != replayedSince,
		f.sentBy.has(f.order.Target.identity(next.event)):
		return nil
	case f.order.Limit > 0 && f.order.Sent+f.order.Skipped+f.order.Failed+f.begun >= f.order.Limit:
		return errEnough
	case f.options.StopAfter > 0 && f.begun >= f.options.StopAfter:
		return errStopAfter
	}
	p := f.r.passage(f.order, next)
	p.late = late
	if err := f.makeRoom(p); err != nil {
		return err
	}
	f.begun++
	if next.leftOut == "" {
		f.depart(p)
	}
	f.departed <- p
	return nil
}

func (f *flight) makeRoom(p *passage) error {
	select {
	case f.window <- struct{}{}:
	case <-f.feeding.Done():
		return context.Cause(f.feeding)
	}
	if err := f.bytes.Acquire(f.feeding, p.bytes); err != nil {
		return context.Cause(f.feeding)
	}
	return f.pace.Wait(f.feeding)
}

// passage is a message as it will be sent. It begins anew: its state has no
// attempt and no instance id.
func (r *Replayer) passage(job Job, next found) *passage {
	e := next.event
	sent := job.Changes.apply(job.Target.address(e.Envelope))
	return &passage{
		found: next, sent: sent,
		bytes: min(int64(len(sent.Body))+1, flightBytes),
		state: schemas.State{
			Fingerprint: sent.Fingerprint(), Queue: job.Target.queue(e),
			Replay: job.ID, ReplayOf: e.EventID, Time: r.now(),
		},
	}
}

// depart publishes the message and does not wait for its confirm, but for the
// first message to each queue.
func (f *flight) depart(p *passage) {
	queue := p.state.Queue
	switch {
	case p.event.BodyIn != schemas.BodyHere:
		p.err = &NoBodyError{p.event.EventID, p.event.Fingerprint}
	case queue == "":
		p.pending, p.err = f.line.publisher.Send(f.flying, rabbit.Message{
			Exchange: p.sent.Exchange, RoutingKey: p.sent.RoutingKey,
			Publishing: schemas.WrapForExchange(p.sent, p.state, f.r.cfg.Login),
		})
	case !f.reached[queue]:
		p.err = f.line.hop.Deliver(f.flying, p.sent, p.state)
		f.reached[queue] = p.err == nil
	default:
		p.pending, p.err = f.line.publisher.Send(f.flying, f.line.hop.Message(p.sent, p.state))
	}
}

// confirm waits until each message is safe, and then publishes its event. In
// this order a crash between them may send a message twice; in the other it
// would count as sent and never be.
func (f *flight) confirm() {
	defer close(f.confirmed)
	for p := range f.departed {
		if p.pending != nil {
			p.err = p.pending.Wait(f.flying)
		}
		f.bytes.Release(p.bytes)
		if p.err == nil && p.leftOut == "" {
			p.said, p.err = f.say(p)
		}
		p.sent.Body, p.event.Envelope.Body = nil, nil
		f.confirmed <- p
	}
}

// settle waits until each event is safe.
func (f *flight) settle() {
	defer close(f.settled)
	for p := range f.confirmed {
		if p.said != nil {
			p.err = notSaid(p, p.said.Wait(f.flying))
		}
		f.settled <- p
	}
}

// say publishes the `replayed` event. Its id is the job's and the event's, so
// that a repeat is the same document. It is about the message that was kept,
// whose fingerprint it has, and leaves the body out, which the store has.
func (f *flight) say(p *passage) (*rabbit.Pending, error) {
	state := p.state
	state.EventID = state.Replay + ":" + state.ReplayOf
	state.Fingerprint, state.Message, state.Queue = p.event.Fingerprint, p.event.Message, p.event.Queue
	if f.order.Target.Kind == ToQueue {
		state.Queue = f.order.Target.Queue
	}
	pending, err := f.line.publisher.Send(f.flying, rabbit.Message{
		Exchange:   f.r.cfg.Topology.Events(),
		RoutingKey: string(schemas.Replayed),
		Publishing: schemas.WrapWithoutBody(p.event.Envelope, state),
	})
	return pending, notSaid(p, err)
}

// notSaid hides what kind of error it is: it stops the job, since the next
// event would not arrive either.
func notSaid(p *passage, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the message of event %s was sent, but its replayed event was not: %v", p.event.EventID, err)
}

// concernsOneMessage: the others may well arrive.
func concernsOneMessage(err error) bool {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	var noBody *NoBodyError
	return errors.As(err, &unroutable) || errors.As(err, &nacked) || errors.As(err, &refused) || errors.As(err, &noBody)
}
