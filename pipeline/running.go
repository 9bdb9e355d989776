package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// errRunning is the error of an attempt at a message that a handler is still working on.
var errRunning = errors.New("its handler has not returned since an earlier delivery, which has ended")

// runningCalls are the calls of a route's handler. RabbitMQ delivers a message again when
// its channel ends, as it does when the message is not acknowledged within the
// consumer_timeout. A handler that hangs would get the message once more each time, and
// occupy one slot after the other.
type runningCalls struct {
	mu  sync.Mutex                // guards all
	all map[string][]*handlerCall // by fingerprint
}

// handlerCall is one call of a handler.
type handlerCall struct {
	delivery context.Context // ends with the channel of the message
	began    time.Time
	message  string // instance id, "" where it has none yet
}

// begin is called before a handler; the returned function is called after it.
func (r *runningCalls) begin(ctx context.Context, state schemas.State, now time.Time) (end func()) {
	this := &handlerCall{delivery: ctx, began: now, message: state.Message}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]*handlerCall{}
	}
	r.all[state.Fingerprint] = append(r.all[state.Fingerprint], this)
	return func() { r.end(state.Fingerprint, this) }
}

func (r *runningCalls) end(fingerprint string, this *handlerCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(r.all[fingerprint], func(other *handlerCall) bool { return other == this })
	if r.all[fingerprint] = left; len(left) == 0 {
		delete(r.all, fingerprint)
	}
}

// find returns the start of a running call for a message that is delivered again. A
// message without an instance id gets the result of newID as its id.
func (r *runningCalls) find(ctx context.Context, state *schemas.State, newID func() string) (since time.Time, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.all[state.Fingerprint] {
		if other.delivery.Err() == nil || other.message != state.Message {
			continue
		}
		if other.message == "" {
			if !transport.Redelivered(ctx) {
				continue
			}
			other.message = newID()
			state.Message = other.message
		}
		return other.began, true
	}
	return time.Time{}, false
}

// stillRunning fails an attempt at a message that a handler of this process has since an
// earlier delivery. It is a failure if the time-out of the route has passed; otherwise
// the message waits for the handler.
func (h *routeHandler) stillRunning(ctx context.Context, verified *schemas.VerifiedState) error {
	since, found := h.runningCalls.find(ctx, &verified.State, h.newID)
	switch {
	case !found:
		return nil
	case h.route.Timeout > 0 && h.now().Sub(since) > h.route.Timeout:
		return fmt.Errorf("%w: %w", errRunning, context.DeadlineExceeded)
	}
	return errRunning
}
