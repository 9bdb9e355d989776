package replayer

import (
	"fmt"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

const (
	companySize  = 100       // messages whose events travel together
	companyBytes = 128 << 10 // of events, before they are compressed
)

// company is messages that have an outcome, in order. The `replayed` events of
// those that were sent travel together, in one message: alone, each would cost
// the broker as much as the message that it is about.
type company struct {
	passages []*passage
	said     *rabbit.Pending // the events; nil where there are none
	err      error
}

func newCompany() *company { return &company{passages: make([]*passage, 0, companySize)} }

// confirm waits until each message is safe, and then publishes its event. In
// this order a crash between them may send a message twice; in the other it
// would count as sent and never be. No event waits for a message that is not
// safe yet.
func (f *flight) confirm() {
	defer close(f.confirmed)
	c := newCompany()
	var events schemas.Bundle
	say := func() {
		if len(c.passages) > 0 {
			f.say(c, &events)
			f.confirmed <- c
			c = newCompany()
		}
	}
	for p := range f.departed {
		if len(c.passages) >= companySize || events.Size() >= companyBytes || !p.ready() {
			say()
		}
		f.arrive(p)
		if p.err == nil && p.departs() {
			events.Add(f.replayed(p))
		}
		p.sent.Body, p.event.Envelope.Body = nil, nil
		c.passages = append(c.passages, p)
		if len(f.departed) == 0 {
			say()
		}
	}
	say()
}

func (p *passage) ready() bool { return p.pending == nil || p.pending.Ready() }

// arrive waits for the outcome of a message.
func (f *flight) arrive(p *passage) {
	if p.pending != nil {
		p.err = p.pending.Wait(f.flying)
	}
	f.bytes.Release(p.bytes)
}

// replayed is the event of a message that was sent. Its id is the job's and the
// event's, so that a repeat is the same document. It is about the message that was
// kept, whose fingerprint it has, and leaves the body out, which the store has. It
// names a queue only where the message went to that one alone.
func (f *flight) replayed(p *passage) schemas.Event {
	state := p.state
	state.EventID = schemas.DerivedID(state.Replay, state.ReplayOf)
	state.Fingerprint, state.Message = p.event.Fingerprint, p.event.Message
	return schemas.Event{
		State: state, Action: schemas.Replayed,
		Envelope: p.event.Envelope, BodySize: len(p.event.Envelope.Body), BodyIn: schemas.BodyInPublished,
	}
}

func (f *flight) say(c *company, events *schemas.Bundle) {
	if events.Len() == 0 {
		return
	}
	c.said, c.err = f.line.publisher.Send(f.flying, f.r.signed(rabbit.Message{
		Exchange:   f.r.cfg.Topology.Events(),
		RoutingKey: string(schemas.Replayed),
		Publishing: events.Publishing(),
	}))
}

// settle waits until the events are safe.
func (f *flight) settle() {
	defer close(f.settled)
	for c := range f.confirmed {
		if c.said != nil {
			c.err = c.said.Wait(f.flying)
		}
		for _, p := range c.passages {
			if p.err == nil && p.departs() {
				p.err = notSaid(p, c.err)
			}
			f.settled <- p
		}
	}
}

// notSaid hides what kind of error it is: it stops the job, since the next
// event would not arrive either.
func notSaid(p *passage, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the message of event %s was sent, but its replayed event was not: %v", p.event.EventID, err)
}
