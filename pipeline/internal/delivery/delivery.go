// Package delivery has what package pipeline sets in its transport, and asks it about a message, and no other program
// needs. Package transport puts the State of each message into its context.
package delivery

import (
	"context"
	"sync"
)

type stateKey struct{}

// State is in the context of a message, from its delivery to its acknowledgement.
type State struct {
	Redelivered bool             // the broker marked the message as delivered before
	Settle      func(acked bool) // acknowledges or requeues it; only the first call has an effect

	mu      sync.Mutex // guards the fields below, since a message may be nacked while a handler has it
	settled func()     // of AfterSettled; nil: none
	taken   bool       // the message is acked or nacked
}

// NewContext returns a context with the state of a message.
func NewContext(ctx context.Context, state *State) context.Context {
	return context.WithValue(ctx, stateKey{}, state)
}

// FromContext returns the state of the message being handled, and false if the message does not come from a Subscriber
// of package transport.
func FromContext(ctx context.Context) (*State, bool) {
	state, found := ctx.Value(stateKey{}).(*State)
	return state, found
}

// Redelivered is transport.Redelivered.
func Redelivered(ctx context.Context) bool {
	state, found := FromContext(ctx)
	return found && state.Redelivered
}

// AfterSettled sets a function for the message being handled, which the Subscriber calls once
// the acknowledgement is written to the connection, so that RabbitMQ gets it even if the process
// ends. If the message is nacked, or its channel is lost, the Subscriber calls it then. It returns
// false if the message does not come from a Subscriber. Call it once, before the ack.
func AfterSettled(ctx context.Context, f func()) bool {
	state, found := FromContext(ctx)
	if found && !state.set(f) {
		f()
	}
	return found
}

// set returns false if the message is acked or nacked.
func (s *State) set(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		return false
	}
	s.settled = f
	return true
}

// Take returns the function of AfterSettled, nil if none exists. first is true once.
func (s *State) Take() (f func(), first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, first = s.settled, !s.taken
	s.settled, s.taken = nil, true
	return f, first
}

// Settle acknowledges the message being handled, or requeues it after a pause as a nack does.
// Only the first call for a message has an effect. It is for Subscribers with the option
// SettledByHandlers.
func Settle(ctx context.Context, acked bool) {
	if state, found := FromContext(ctx); found {
		state.Settle(acked)
	}
}
