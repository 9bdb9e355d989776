package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/rabbit"
)

// heldMessages are the messages of a pipeline whose next copy the broker does not
// accept. Each keeps its slot of the concurrency, so they are few.
type heldMessages struct {
	gauge *prometheus.GaugeVec

	mu   sync.Mutex // guards the fields below
	last int
	all  map[int]heldMessage
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

	// shortHold is how long a message may be held before err reports it.
	shortHold = 10 * time.Second
)

func (h *heldMessages) begin(m heldMessage) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[int]heldMessage{}
	}
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

// err names the message that has been held longest, nil if no message is held for long.
func (h *heldMessages) err(now time.Time) error {
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

// hold publishes until the broker has confirmed the message. Requeuing the delivery
// instead would call the handler once more, until a delivery limit drops the message.
// It fails only with the end of the delivery or of the publisher.
func (f *messageFlow) hold(ctx context.Context, operation string, publish func() error) error {
	h := &heldPublish{messageFlow: f, operation: operation}
	defer h.end()
	for pause := holdFirst; ; pause = min(2*pause, holdCap) {
		err := h.publishWatched(publish)
		if err == nil {
			return nil
		}
		if !cannotRetry(ctx, err) {
			h.recordError(err)
		}
		if cannotRetry(ctx, err) || !f.sleep(ctx, pause) {
			return fmt.Errorf("%s: %w", operation, err)
		}
	}
}

// cannotRetry reports whether the delivery or the publisher has ended.
func cannotRetry(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, rabbit.ErrClosed)
}

// heldPublish is the publish of one message, until the broker has confirmed it.
type heldPublish struct {
	*messageFlow
	operation string

	mu      sync.Mutex // guards release
	release func()     // nil while the message is not held
}

// slowAfter is how long the broker may take to confirm a message that is not held.
const slowAfter = 30 * time.Second

// publishWatched publishes. A message that the broker does not confirm is held, too.
func (h *heldPublish) publishWatched(publish func() error) error {
	slow := time.AfterFunc(slowAfter, func() { h.begin(fmt.Errorf("not confirmed within %s", slowAfter)) })
	defer slow.Stop()
	return publish()
}

func (h *heldPublish) recordError(err error) {
	if h.begin(err) {
		h.logger.Error("the result of a message cannot be recorded; the message is held and the publish repeated",
			"queue", h.queue, "doing", h.operation, "error", err)
	}
}

// begin returns false if the message is held already.
func (h *heldPublish) begin(why error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.release != nil {
		return false
	}
	h.release = h.heldMessages.begin(heldMessage{queue: h.queue, since: h.now(), why: fmt.Errorf("%s: %w", h.operation, why)})
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
	h.logger.Info("a message is no longer held", "queue", h.queue, "doing", h.operation)
}

// sleep returns false if ctx ends before d is over.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
