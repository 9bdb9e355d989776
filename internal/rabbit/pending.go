package rabbit

import (
	"context"
	"fmt"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Pending is a message passed to Send whose outcome may not be known yet.
type Pending struct {
	message   Message
	ctx       context.Context
	publisher *Publisher
	done      chan error   // capacity 1, for the outcome
	state     atomic.Int32 // waiting, sending, answered or givenUp

	// The fields below belong to the publisher's run goroutine.
	confirm   *amqp.DeferredConfirmation // on the last channel; nil if the channel was lost while sending
	returned  *UnroutableError
	ambiguous bool // the broker returned a message that may be this one
	removed   bool // no longer in the window
	resent    bool // sent before, on another channel
	closures  int  // how often the broker closed the connection while only this message was unconfirmed
}

// States of a message. waiting: for a channel; sending: sent, without outcome; back
// to waiting if its channel is lost. The caller can give it up before it is
// answered. The transition to answered or givenUp frees its slot.
const (
	waiting int32 = iota
	sending
	answered
	givenUp
)

func (m *Pending) move(from, to int32) bool { return m.state.CompareAndSwap(from, to) }

// Ready reports whether the outcome is known, so that Wait returns at once.
func (m *Pending) Ready() bool { return len(m.done) > 0 }

// Wait returns the outcome, with the errors of Publish. Call it once.
func (m *Pending) Wait(ctx context.Context) error {
	select {
	case err := <-m.done:
		return err
	case <-ctx.Done():
	case <-m.publisher.dead:
	}
	select {
	case err := <-m.done: // prefer the outcome when both are ready
		return err
	default:
	}
	if m.ctx.Err() != nil {
		m.giveUp()
	}
	if ctx.Err() != nil {
		return m.notConfirmedError(ctx)
	}
	return ErrClosed // Send and the end of run coincided
}

// giveUp frees the slot. A sent message stays in the window, since the broker may
// still return it.
func (m *Pending) giveUp() {
	switch {
	case m.move(waiting, givenUp):
	case m.move(sending, givenUp):
		m.publisher.givenUpUnconfirmed.Add(1)
	default:
		return
	}
	<-m.publisher.slots
}

func (m *Pending) notConfirmedError(ctx context.Context) error {
	err := context.Cause(ctx)
	if why := m.publisher.conn.Err(); why != nil {
		err = fmt.Errorf("%w (no connection to the broker: %w)", err, why)
	}
	return fmt.Errorf("publish to exchange %q with routing key %q, not confirmed: %w", m.message.Exchange, m.message.RoutingKey, err)
}
