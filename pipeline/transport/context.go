package transport

import (
	"context"
	"sync"
)

type deliveryKey struct{}

// deliveryState is in the context of a message, from its delivery to its acknowledgement.
type deliveryState struct {
	redelivered bool
	settle      func(acked bool) // of Settle

	mu      sync.Mutex // guards the fields below, since a message may be nacked while a handler has it
	settled func()     // of AfterSettled; nil: none
	taken   bool       // the message is acked or nacked
}

// Redelivered reports whether the broker marked the message being handled as delivered
// before: to a handler that failed, or to a process that died.
func Redelivered(ctx context.Context) bool {
	state, found := ctx.Value(deliveryKey{}).(*deliveryState)
	return found && state.redelivered
}

// AfterSettled sets a function for the message being handled, which the Subscriber calls once
// the acknowledgement is written to the connection, so that RabbitMQ gets it even if the process
// ends. If the message is nacked, or its channel is lost, the Subscriber calls it then. It returns
// false if the message does not come from a Subscriber. Call it once, before the ack.
func AfterSettled(ctx context.Context, f func()) bool {
	state, found := ctx.Value(deliveryKey{}).(*deliveryState)
	if found && !state.set(f) {
		f()
	}
	return found
}

// set returns false if the message is acked or nacked.
func (s *deliveryState) set(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		return false
	}
	s.settled = f
	return true
}

// Settle acknowledges the message being handled, or requeues it after a pause as a nack does.
// Only the first call for a message has an effect. It is for Subscribers with the option
// SettledByHandlers.
func Settle(ctx context.Context, acked bool) {
	if state, found := ctx.Value(deliveryKey{}).(*deliveryState); found {
		state.settle(acked)
	}
}

func withDelivery(ctx context.Context, state *deliveryState) context.Context {
	return context.WithValue(ctx, deliveryKey{}, state)
}

// take returns the function of AfterSettled, nil if none exists. first is true once.
func (s *deliveryState) take() (f func(), first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, first = s.settled, !s.taken
	s.settled, s.taken = nil, true
	return f, first
}
