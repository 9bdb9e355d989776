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
	*found
	state   schemas.State
	sent    schemas.Envelope
	late    bool // found after the cursor had gone by
	before  bool // sent by an earlier run, which could not save that
	bytes   int64
	pending *rabbit.Pending // of the message; nil where there is nothing to wait for
	err     error
}

// consider sends the message of an event, unless it is left out.
func (f *flight) consider(next *found, late bool) error {
	before := f.sentBy.size > 0 && f.sentBy.has(next.message)
	switch {
	case next.leftOut != "" && next.leftOut != replayedSince:
		return nil
	case f.order.Limit > 0 && f.order.Sent+f.order.Skipped+f.order.Failed+f.begun >= f.order.Limit:
		return errEnough
	case f.options.StopAfter > 0 && f.begun >= f.options.StopAfter:
		return errStopAfter
	}
	p := f.r.passage(&f.order, next)
	p.late, p.before = late, before
	if err := f.makeRoom(p); err != nil {
		return err
	}
	f.begun++
	if p.departs() {
		f.depart(p)
	}
	f.departed <- p
	return nil
}

// departs says whether the message is one that this run sends.
func (p *passage) departs() bool { return p.leftOut == "" && !p.before }

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
func (r *Replayer) passage(job *Job, next *found) *passage {
	e := &next.event
	sent := job.Changes.apply(job.Target.address(e.Envelope))
	return &passage{
		found: next, sent: sent,
		bytes: min(int64(len(sent.Body))+1, flightBytes),
		state: schemas.State{
			Fingerprint: fingerprint(e, sent, job), Queue: job.Target.queue(*e),
			Replay: job.ID, ReplayOf: e.EventID, Time: r.now(),
		},
	}
}

// fingerprint is known already, unless the job changes what it is about.
func fingerprint(e *schemas.Event, sent schemas.Envelope, job *Job) string {
	if job.Target.Kind != ToExchange && job.Changes.none() {
		return e.Fingerprint
	}
	return sent.Fingerprint()
}

// depart publishes the message and does not wait for its confirm, but for the
// first message to each queue.
func (f *flight) depart(p *passage) {
	queue := p.state.Queue
	switch {
	case p.event.BodyIn != schemas.BodyHere:
		p.err = &NoBodyError{p.event.EventID, p.event.Fingerprint}
	case queue == "":
		p.pending, p.err = f.line.publisher.Send(f.flying, f.r.signed(rabbit.Message{
			Exchange: p.sent.Exchange, RoutingKey: p.sent.RoutingKey,
			Publishing: schemas.WrapForExchange(p.sent, p.state, f.r.cfg.Login),
		}))
	case !f.reached[queue]:
		p.err = f.line.hop.Deliver(f.flying, p.sent, p.state)
		f.reached[queue] = p.err == nil
	default:
		p.pending, p.err = f.line.publisher.Send(f.flying, f.line.hop.Message(p.sent, p.state))
	}
}

// problem is why the message could not be sent. The exchange by which it goes to one
// queue says nothing to whoever named the queue.
func (p *passage) problem() string {
	var nacked *rabbit.NackedError
	if p.state.Queue != "" && errors.As(p.err, &nacked) {
		return fmt.Sprintf("queue %q refused the message, as a full one does", p.state.Queue)
	}
	return p.err.Error()
}

// concernsOneMessage: the others may well arrive.
func concernsOneMessage(err error) bool {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	var noBody *NoBodyError
	return errors.As(err, &unroutable) || errors.As(err, &nacked) || errors.As(err, &refused) || errors.As(err, &noBody)
}
