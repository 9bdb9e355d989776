package waiting

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// taker takes messages out of one delay queue. It holds all messages from the head of the
// queue on, so that none of them becomes due in the meantime, and RabbitMQ itself moves the
// ones that are taken: as dead letters, on the way of messages that are due. Without an answer from the
// taker, as after its end, all stay in the queue.
type taker struct {
	conn  *exclusive.Connection
	queue string

	// mark saves the decision about some waits before RabbitMQ moves any.
	mark func(ctx context.Context, keys []string) error
}

const (
	// maxWindow is the number of messages that one channel holds at most. RabbitMQ searches all of
	// them for each rejected one.
	maxWindow = 1000

	// A window has as many messages as have windowBytes of bodies, because it receives them at once. The size of
	// messages is not known before the first window, which has fewer.
	windowBytes = 64 << 20
	firstWindow = 50

	maxWindows = 1000 // within RabbitMQ's limit of channels
	maxPasses  = 20

	readTimeout = time.Minute            // for a whole queue
	silence     = 100 * time.Millisecond // after which the queue may be empty
)

// take takes the wanted waits out of the queue, and returns those that it took. RabbitMQ may
// drop rejections of a channel that closes, whose messages then stay: the taker looks for
// them again until none exists.
func (t taker) take(ctx context.Context, wanted map[string]bool) (taken map[string]bool, err error) {
	ctx, stop := t.conn.UntilLost(ctx)
	defer stop()
	taken = map[string]bool{}
	for limit, passes := 0, 0; passes < maxPasses; passes++ {
		found, held, err := t.pass(ctx, wanted, limit)
		if err != nil {
			return taken, fmt.Errorf("taking messages out of queue %q: %w", t.queue, err)
		}
		for key := range found {
			taken[key] = true
		}
		if len(found) == 0 {
			return taken, nil
		}
		limit = max(limit, held) // all are at the head of the queue now
	}
	return taken, fmt.Errorf("taking messages out of queue %q: RabbitMQ gives some back each time", t.queue)
}

// pass reads up to limit messages (0: until all wanted ones are found), rejects the wanted
// ones and requeues the others.
func (t taker) pass(ctx context.Context, wanted map[string]bool, limit int) (found map[string]bool, held int, err error) {
	var windows []*window
	defer func() { // in the order of the queue, which quorum queues keep then
		for _, w := range windows {
			err = errors.Join(err, w.end())
		}
	}()
	reading, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("it was not read within %s", readTimeout))
	defer cancel()
	found = map[string]bool{}
	read := 0 // bytes
	for last := false; !last; {
		w := t.open(ctx, windowOf(held, read))
		windows = append(windows, w)
		if err := w.read(reading, wanted, found, limit-held); err != nil {
			return nil, held, err
		}
		held += w.held
		read += w.bytes
		last = w.last || len(windows) == maxWindows || limit > 0 && held >= limit || limit == 0 && len(found) >= len(wanted)
	}
	if len(found) == 0 {
		return found, held, nil
	}
	var keys []string
	for key := range found {
		keys = append(keys, key)
	}
	if err := t.mark(ctx, keys); err != nil {
		return nil, held, err
	}
	for _, w := range windows {
		if err := w.reject(); err != nil {
			return nil, held, err
		}
	}
	return found, held, nil
}

// windowOf returns the number of messages of a window after a number of messages with bodies of a number of bytes.
func windowOf(held, bytes int) int {
	if held == 0 {
		return firstWindow
	}
	average := max(bytes/held, 1)
	return min(max(windowBytes/average, 1), maxWindow)
}

// window has the messages that one channel holds.
type window struct {
	taker
	size    int // at most
	session chan *rabbit.Session
	release context.CancelFunc
	ended   chan error

	live   *rabbit.Session
	held   int
	bytes  int      // of bodies
	tags   []uint64 // of wanted messages
	newest uint64   // tag
	last   bool     // the queue is empty but for held messages
}

var errReleased = errors.New("released")

// open consumes on its own channel until end.
func (t taker) open(ctx context.Context, size int) *window {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &window{taker: t, size: size, session: make(chan *rabbit.Session), ended: make(chan error, 1)}
	released := make(chan struct{})
	w.release = func() { close(released) }
	go func() {
		defer cancel(nil)
		w.ended <- t.conn.Consume(ctx, rabbit.ConsumeConfig{Queue: t.queue, Prefetch: size}, func(ctx context.Context, s *rabbit.Session) error {
			select {
			case w.session <- s:
			case <-released:
				return errReleased
			case <-ctx.Done():
				return nil
			}
			select {
			case <-released:
				return errReleased
			case <-ctx.Done():
				cancel(context.Cause(ctx)) // no second session
				return nil
			}
		})
	}()
	return w
}

// end closes the channel, which requeues the messages that were not rejected.
func (w *window) end() error {
	w.release()
	if err := <-w.ended; !errors.Is(err, errReleased) {
		return err
	}
	return nil
}

// read receives messages until the window is full or the queue is empty, and notes the
// wanted ones.
func (w *window) read(ctx context.Context, wanted, found map[string]bool, limit int) error {
	select {
	case w.live = <-w.session:
	case err := <-w.ended:
		w.ended <- err
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	size := w.size
	if limit > 0 {
		size = min(size, limit)
	}
	for w.held < size && !w.last {
		select {
		case d, ok := <-w.live.Deliveries:
			if !ok {
				return errors.New("the channel was closed")
			}
			w.hold(d, wanted, found)
		case <-time.After(silence):
			state, _, err := w.conn.QueueState(ctx, w.queue)
			if err != nil {
				return err
			}
			w.last = state.Messages == 0 && !state.Uncertain
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if limit <= 0 && len(found) >= len(wanted) {
			break
		}
	}
	if err := w.live.Cancel(); err != nil {
		return err
	}
	for d := range w.live.Deliveries {
		w.hold(d, wanted, found)
	}
	return nil
}

func (w *window) hold(d amqp.Delivery, wanted, found map[string]bool) {
	w.held++
	w.bytes += len(d.Body)
	w.newest = d.DeliveryTag
	_, state, err := wire.Unwrap(schemas.FromDelivery(d))
	if key := waitOf(state); err == nil && wanted[key] {
		found[key] = true
		w.tags = append(w.tags, d.DeliveryTag)
	}
}

// reject dead-letters the wanted messages.
func (w *window) reject() error {
	if len(w.tags) == w.held && w.held > 0 {
		return w.live.Nack(w.newest, true, false)
	}
	for _, tag := range w.tags {
		if err := w.live.Nack(tag, false, false); err != nil {
			return err
		}
	}
	return nil
}
