// Package handlercall knows the calls of handlers that have not returned.
package handlercall

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Running are the calls of a route's handler. RabbitMQ delivers a message again when its
// channel ends, as it does when the message is not acknowledged within the consumer_timeout.
// A handler that hangs would get the message once more each time, and occupy one slot after
// the other. The zero value has no calls.
type Running struct {
	mu  sync.Mutex         // guards all
	all map[string][]*call // by fingerprint
}

// call is one call of a handler.
type call struct {
	delivery context.Context // ends with the channel of the message
	began    time.Time
	message  string // instance id, "" where it has none yet
}

// Begin is called before a handler; the returned function is called after it.
func (r *Running) Begin(delivery context.Context, state schemas.State, now time.Time) (end func()) {
	this := &call{delivery: delivery, began: now, message: state.Message}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]*call{}
	}
	r.all[state.Fingerprint] = append(r.all[state.Fingerprint], this)
	return func() { r.end(state.Fingerprint, this) }
}

func (r *Running) end(fingerprint string, this *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(r.all[fingerprint], func(other *call) bool { return other == this })
	if r.all[fingerprint] = left; len(left) == 0 {
		delete(r.all, fingerprint)
	}
}

// Find returns the start of a running call for a message that is delivered again. A
// redelivered message without an instance id gets the result of newID as its id.
func (r *Running) Find(state *schemas.State, redelivered bool, newID func() string) (since time.Time, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.all[state.Fingerprint] {
		if other.delivery.Err() == nil || other.message != state.Message {
			continue
		}
		if other.message == "" {
			if !redelivered {
				continue
			}
			other.message = newID()
			state.Message = other.message
		}
		return other.began, true
	}
	return time.Time{}, false
}
