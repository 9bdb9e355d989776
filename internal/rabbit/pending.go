package rabbit

import (
	"context"
	"fmt"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Pending is a message on its way.
type Pending struct {
	message   Message
	ctx       context.Context
	publisher *Publisher
	done      chan error   // one outcome
	state     atomic.Int32 // waiting, sending, answered or givenUp

	// What follows is the owner's.
	confirm  *amqp.DeferredConfirmation // of the channel that sent it last; nil if lost while sending
	returned *UnroutableError
	doubtful bool // the broker returned this message or another
	settled  bool // no part of the window any more
	strikes  int  // how often the broker broke off while only this was on its way
}

// A message waits for a channel, is sent, and is answered; lost with its channel, it
// waits again. Its caller may give it up before it is answered. The transition to
// answered or givenUp frees its slot.
const (
	waiting int32 = iota
	sending
	answered
	givenUp
)

func (m *Pending) move(from, to int32) bool { return m.state.CompareAndSwap(from, to) }

// Ready says whether the outcome is known, so that Wait returns at once.
func (m *Pending) Ready() bool { return len(m.done) > 0 }

// Wait returns the outcome, as Publish does. It is to be called once.
func (m *Pending) Wait(ctx context.Context) error {
	select {
	case err := <-m.done:
		return err
	case <-ctx.Done():
	case <-m.publisher.dead:
	}
	select {
	case err := <-m.done: // both at once: the outcome says more
		return err
	default:
	}
	if m.ctx.Err() != nil {
		m.giveUp()
	}
	if ctx.Err() != nil {
		return m.abandoned(ctx)
	}
	return ErrClosed // sent at the moment of the publisher's end
}

// giveUp frees the slot. A message that was sent stays in the window, since the
// broker may yet return it.
func (m *Pending) giveUp() {
	switch {
	case m.move(waiting, givenUp):
	case m.move(sending, givenUp):
		m.publisher.stray.Add(1)
	default:
		return
	}
	<-m.publisher.slots
}

func (m *Pending) abandoned(ctx context.Context) error {
	err := context.Cause(ctx)
	if why := m.publisher.conn.Err(); why != nil {
		err = fmt.Errorf("%w (no connection to the broker: %w)", err, why)
	}
	return fmt.Errorf("publish to exchange %q with routing key %q, not confirmed: %w", m.message.Exchange, m.message.RoutingKey, err)
}
