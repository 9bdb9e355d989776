package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/pipeline/internal/delivery"
	"github.com/watershipmq/watership/schemas"
)

// Errors of messages that have to wait.
var (
	// ErrRunning is the error of a message that a handler is still working on. It is a
	// context.DeadlineExceeded as well if that should have returned.
	ErrRunning = errors.New("its handler has not returned since an earlier delivery, which has ended")

	// ErrEarlier begins the error of a message that waits for an earlier one.
	ErrEarlier = errors.New("waits for")
)

// stillRunning fails an attempt at a message that a handler of this process has since an
// earlier delivery. It is a failure if the time-out of the route has passed; otherwise
// the message waits for the handler.
func (t *Ticket) stillRunning(ctx context.Context) error {
	cfg := &t.of.cfg
	since, found := cfg.Running.find(&t.State, delivery.Redelivered(ctx), cfg.NewID)
	switch {
	case !found:
		return nil
	case cfg.Timeout > 0 && cfg.Now().Sub(since) > cfg.Timeout:
		return fmt.Errorf("%w: %w", ErrRunning, context.DeadlineExceeded)
	}
	return ErrRunning
}

// Running are the calls of a route's handler. RabbitMQ delivers a message again when its
// channel ends, as it does when the message is not acknowledged within the consumer_timeout.
// A handler that hangs would get the message once more each time, and occupy one slot after
// the other. The zero value has no calls.
type Running struct {
	mu  sync.Mutex                // guards all, and the messages of the calls
	all map[string][]*runningCall // by fingerprint; the calls for equal messages, oldest first
}

// runningCall is one call of a handler.
type runningCall struct {
	delivery context.Context // ends with the channel of the message
	began    time.Time
	message  string // instance id, "" where it has none yet
}

// begin is called before a handler gets a message, with the instance id with which it was delivered;
// the returned function is called after it.
func (r *Running) begin(delivery context.Context, fingerprint, message string, now time.Time) (end func()) {
	this := &runningCall{delivery: delivery, began: now, message: message}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]*runningCall{}
	}
	r.all[fingerprint] = append(r.all[fingerprint], this)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		rest := slices.DeleteFunc(r.all[fingerprint], func(other *runningCall) bool { return other == this })
		if r.all[fingerprint] = rest; len(rest) == 0 {
			delete(r.all, fingerprint)
		}
	}
}

// find returns the start of a running call for a message that is delivered again. A
// redelivered message without an instance id gets the result of newID as its id.
func (r *Running) find(state *schemas.State, redelivered bool, newID func() string) (since time.Time, found bool) {
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
