// Package call has the handlers of a router, the messages that they get, their calls that have
// not returned, and their metrics.
package call

import (
	"context"
	"sync"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Running are the calls of a route's handler. RabbitMQ delivers a message again when its
// channel ends, as it does when the message is not acknowledged within the consumer_timeout.
// A handler that hangs would get the message once more each time, and occupy one slot after
// the other. The zero value has no calls.
type Running struct {
	mu  sync.Mutex       // guards the fields below, and next of the calls
	all map[string]*call // by fingerprint; the calls for equal messages are a list, oldest first
}

// call is one call of a handler.
type call struct {
	running     *Running
	fingerprint string
	next        *call // for an equal message

	delivery context.Context // ends with the channel of the message
	began    time.Time
	message  string // instance id, "" where it has none yet
}

// Begin is called before a handler; the returned function is called after it.
func (r *Running) Begin(delivery context.Context, state schemas.State, now time.Time) (end func()) {
	this := &call{running: r, fingerprint: state.Fingerprint, delivery: delivery, began: now, message: state.Message}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*call{}
	}
	if last := r.all[state.Fingerprint]; last == nil {
		r.all[state.Fingerprint] = this
	} else {
		for last.next != nil {
			last = last.next
		}
		last.next = this
	}
	return this.end
}

func (c *call) end() {
	r := c.running
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.all[c.fingerprint]
	switch {
	case first != c:
		for first.next != c {
			first = first.next
		}
		first.next = c.next
	case c.next != nil:
		r.all[c.fingerprint] = c.next
	default:
		delete(r.all, c.fingerprint)
	}
}

// Find returns the start of a running call for a message that is delivered again. A
// redelivered message without an instance id gets the result of newID as its id.
func (r *Running) Find(state *schemas.State, redelivered bool, newID func() string) (since time.Time, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := r.all[state.Fingerprint]; other != nil; other = other.next {
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
