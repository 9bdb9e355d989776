package output

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/rabbit"
)

// HeldMessages are the messages of a pipeline whose next copy the broker does not accept. Each
// keeps its slot of the concurrency, so they are few.
type HeldMessages struct {
	gauge *prometheus.GaugeVec // by the queue that delivered them

	mu   sync.Mutex // guards the fields below
	last int
	all  map[int]heldMessage
}

// NewHeld returns no messages. The gauge counts them by queue.
func NewHeld(gauge *prometheus.GaugeVec) *HeldMessages {
	return &HeldMessages{gauge: gauge, all: map[int]heldMessage{}}
}

// heldMessage is a message whose next copy the broker does not accept.
type heldMessage struct {
	queue string // that delivered it
	since time.Time
	why   error
}

const (
	holdFirst = time.Second
	holdCap   = time.Minute

	// shortHold is how long a copy may be published or a message be held before Err reports it.
	shortHold = 10 * time.Second
)

func (h *HeldMessages) begin(m heldMessage) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	id := h.last
	h.all[id] = m
	h.gauge.WithLabelValues(m.queue).Inc()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.all, id)
		h.gauge.WithLabelValues(m.queue).Dec()
	}
}

// Err names the message that has been held longest; nil if no message is held for long.
func (h *HeldMessages) Err(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var oldest heldMessage
	for _, m := range h.all {
		if oldest.since.IsZero() || m.since.Before(oldest.since) {
			oldest = m
		}
	}
	if oldest.since.IsZero() || now.Sub(oldest.since) < shortHold {
		return nil
	}
	return fmt.Errorf("messages are held since their results cannot be recorded: %d, the oldest, of queue %q, for %s: %w",
		len(h.all), oldest.queue, now.Sub(oldest.since).Round(time.Second), oldest.why)
}

// Operation is a publish of the next copy of a message.
type Operation struct {
	Name   string // such as "publishing a message to the poison queue"
	Queue  string // that delivered the message
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error // of ctx, if that has ended then
	Logger *slog.Logger
}

// Publish publishes until the broker has confirmed the message. Requeuing the delivery
// instead would call the handler once more, until a delivery limit drops the message.
// It fails only with the end of the delivery or of the publisher.
func (h *HeldMessages) Publish(ctx context.Context, o Operation, publish func() error) error {
	one := &heldPublish{Operation: o, messages: h, since: o.Now()}
	defer one.end()
	for pause := holdFirst; ; pause = min(2*pause, holdCap) {
		err := one.publishWatched(publish)
		if err == nil {
			return nil
		}
		if !CannotRetry(ctx, err) {
			one.recordError(err)
		}
		if CannotRetry(ctx, err) || o.Sleep(ctx, pause) != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
	}
}

// CannotRetry reports whether the delivery or the publisher has ended.
func CannotRetry(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, rabbit.ErrClosed)
}

// heldPublish is the publish of one message, until the broker has confirmed it.
type heldPublish struct {
	Operation
	messages *HeldMessages
	since    time.Time

	mu      sync.Mutex // guards release
	release func()     // nil while the message is not held
}

// publishWatched publishes. A message that the broker does not confirm is held, too.
func (h *heldPublish) publishWatched(publish func() error) error {
	slow := time.AfterFunc(shortHold, func() { h.recordError(fmt.Errorf("not confirmed within %s", shortHold)) })
	defer slow.Stop()
	return publish()
}

func (h *heldPublish) recordError(err error) {
	if h.begin(err) {
		h.Logger.Error("the result of a message cannot be recorded; the message is held and the publish repeated",
			"queue", h.Queue, "doing", h.Name, "error", err)
	}
}

// begin returns false if the message is held already.
func (h *heldPublish) begin(why error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.release != nil {
		return false
	}
	h.release = h.messages.begin(heldMessage{queue: h.Queue, since: h.since, why: fmt.Errorf("%s: %w", h.Name, why)})
	return true
}

// end is called after the last publish.
func (h *heldPublish) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.release == nil {
		h.release = func() {} // for a timer that fires as it is stopped
		return
	}
	h.release()
	h.Logger.Info("a message is no longer held", "queue", h.Queue, "doing", h.Name)
}
