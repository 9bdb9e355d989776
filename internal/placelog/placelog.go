// Package placelog keeps the places of messages in the order of their keys in a queue, so that
// the next process of a route knows them. The process that has the order of a route is the
// exclusive consumer of that queue, whose messages it acknowledges once they are out of date.
package placelog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/fairness"
	"github.com/watershipmq/watership/internal/rabbit"
)

// Config configures a Log.
type Config struct {
	Queue      string // with the places, which exists
	Exchange   string // routes to it by its name
	Connection *rabbit.Connection
	Publisher  publisher
	Gate       gate
	Logger     *slog.Logger
}

type publisher interface {
	Publish(ctx context.Context, m rabbit.Message) error
	PublishAll(ctx context.Context, messages []rabbit.Message) []error
}

type gate interface {
	// Forget removes all places of messages that are not in the process.
	Forget()

	// Remember adds the place of a message that is to come.
	Remember(p fairness.Place)
}

// Log is the log of one route. A nil Log keeps nothing.
type Log struct {
	cfg     Config
	opening chan struct{} // a token for Acquire and Release
	writing chan struct{} // a token for Write

	mu      sync.Mutex // guards the fields below
	holds   int
	channel *amqp.Channel // nil: no consumer
	stop    context.CancelFunc
	stopped chan struct{} // closed when run has returned
	entries map[int64]*entry

	reserved []int64 // positions of entries to be published
}

// entry is a place that is in the queue, or being published.
type entry struct {
	place     fairness.Place
	published time.Time // at this time, or later by another process
	tag       uint64    // of its delivery; 0: not delivered yet
	removed   bool      // acknowledge it once it is delivered
}

const (
	// rewriteAfter is the age of a delivery at which its place is published once more: a
	// channel is closed whose deliveries are older than consumer_timeout, by default 30
	// minutes (https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout).
	rewriteAfter = 10 * time.Minute
	rewriteEvery = time.Minute

	// lostAfter is the time after which a place is removed whose message did not return.
	lostAfter = 24 * time.Hour

	retryPause = time.Second
)

// New returns a Log without a consumer.
func New(cfg Config) *Log {
	return &Log{cfg: cfg, opening: make(chan struct{}, 1), writing: make(chan struct{}, 1), entries: map[int64]*entry{}}
}

// Hold lets a subscription consume the queue of the route: it is a transport.Lock. All holds
// of a Log belong to one process, and do not exclude each other.
type Hold struct {
	log  *Log
	held bool // guarded by log.mu
}

// NewHold returns a Hold that is not acquired.
func (l *Log) NewHold() *Hold { return &Hold{log: l} }

// Acquire waits until no other process has the order of the route. If this process did not
// have it, it then reads all places.
func (h *Hold) Acquire(ctx context.Context) error {
	l := h.log
	select {
	case l.opening <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.opening }()
	if !l.consumes() {
		if err := l.consume(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !h.held {
		h.held = true
		l.holds++
	}
	return nil
}

// Release ends the hold. With the last one another process may have the order of the route.
func (h *Hold) Release() {
	l := h.log
	l.mu.Lock()
	held := h.held
	l.mu.Unlock()
	if !held {
		return
	}
	l.opening <- struct{}{} // no process waits for another one with it, since there is a hold
	defer func() { <-l.opening }()
	l.mu.Lock()
	h.held = false
	l.holds--
	last := l.holds == 0
	l.mu.Unlock()
	if last {
		l.end()
	}
}

func (l *Log) consumes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.channel != nil
}

// consume becomes the consumer of the queue, once there is no other, reads all places, and
// goes on reading in a goroutine until end.
func (l *Log) consume(ctx context.Context) error {
	channel, deliveries, err := l.open(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.channel, l.entries, l.reserved = channel, map[int64]*entry{}, nil
	l.mu.Unlock()
	l.cfg.Gate.Forget()
	if err := l.readAll(ctx, deliveries); err != nil {
		l.mu.Lock()
		l.channel = nil
		l.mu.Unlock()
		return errors.Join(fmt.Errorf("read queue %q: %w", l.cfg.Queue, err), closeChannel(channel))
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	l.mu.Lock()
	l.stop, l.stopped = stop, stopped
	l.mu.Unlock()
	go func() {
		defer close(stopped)
		l.run(running, deliveries)
	}()
	return nil
}

// end gives the places back to the broker.
func (l *Log) end() {
	l.mu.Lock()
	stop, stopped := l.stop, l.stopped
	l.mu.Unlock()
	stop()
	<-stopped
	l.mu.Lock()
	channel := l.channel
	l.channel = nil
	l.mu.Unlock()
	_ = closeChannel(channel) // of a lost connection, it is closed
}

func closeChannel(channel *amqp.Channel) error {
	if err := channel.Close(); !errors.Is(err, amqp.ErrClosed) {
		return err
	}
	return nil
}

// open consumes the queue once no other process does.
func (l *Log) open(ctx context.Context) (*amqp.Channel, <-chan amqp.Delivery, error) {
	for told := false; ; told = true {
		channel, err := l.cfg.Connection.Channel(ctx)
		if err != nil {
			return nil, nil, err
		}
		deliveries, err := channel.Consume(l.cfg.Queue, "", false, true, false, false, nil)
		if err == nil {
			return channel, deliveries, nil
		}
		err = errors.Join(fmt.Errorf("consume queue %q: %w", l.cfg.Queue, err), closeChannel(channel))
		var refused *amqp.Error
		if !errors.As(err, &refused) || refused.Code != amqp.AccessRefused {
			return nil, nil, err
		}
		if !told {
			l.cfg.Logger.Info("another process handles the messages of the route in order; waiting for its end", "places", l.cfg.Queue)
		}
		if err := pause(ctx); err != nil {
			return nil, nil, err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(retryPause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readAll reads until a message that it has published itself, which follows all others.
func (l *Log) readAll(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	last := rand.Text()
	if err := l.cfg.Publisher.Publish(ctx, l.message(amqp.Publishing{MessageId: last})); err != nil {
		return err
	}
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the channel was closed")
			}
			if d.MessageId == last {
				return d.Ack(false)
			}
			l.delivered(d)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run reads places, on a new channel if one is lost.
func (l *Log) run(ctx context.Context, deliveries <-chan amqp.Delivery) {
	for {
		l.read(ctx, deliveries)
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		for _, e := range l.entries {
			e.tag = 0
		}
		l.mu.Unlock()
		channel, again, err := l.open(ctx)
		if err != nil {
			_ = pause(ctx)
			continue
		}
		l.mu.Lock()
		l.channel = channel
		l.mu.Unlock()
		deliveries = again
	}
}

func (l *Log) read(ctx context.Context, deliveries <-chan amqp.Delivery) {
	ticker := time.NewTicker(rewriteEvery)
	defer ticker.Stop()
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return
			}
			l.delivered(d)
		case <-ticker.C:
			l.rewrite(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// delivered keeps a delivery until its place is out of date. A place of another process is
// news for the gate.
func (l *Log) delivered(d amqp.Delivery) {
	var place fairness.Place
	if err := json.Unmarshal(d.Body, &place); err != nil || place.Position <= 0 {
		if d.MessageId == "" {
			l.cfg.Logger.Warn("a message in the queue of places cannot be read; it is dropped", "queue", l.cfg.Queue, "error", err)
		}
		_ = d.Ack(false) // an end of readAll that was not read, or rubbish; if the channel is lost, it is redelivered
		return
	}
	if !l.keep(place, d) {
		l.cfg.Gate.Remember(place)
	}
}

// keep reports whether the place was known.
func (l *Log) keep(place fairness.Place, d amqp.Delivery) (known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, known := l.entries[place.Position]
	if !known {
		e = &entry{place: place, published: time.Now()}
		if place.Due.IsZero() {
			e.place.Due = e.published
		}
		l.entries[place.Position] = e
	}
	if e.tag != 0 {
		_ = d.Acknowledger.Ack(e.tag, false)
	}
	if e.tag = d.DeliveryTag; e.removed {
		l.remove(place.Position, e)
	}
	return known
}

// Reserve makes the next Write publish some places, unless they are known. It is called
// before any of them can be removed.
func (l *Log) Reserve(places []fairness.Place) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, place := range places {
		e, known := l.entries[place.Position]
		if known && (place.Due.IsZero() || e.place.Due.Equal(place.Due)) {
			continue
		}
		if !known {
			e = &entry{}
			l.entries[place.Position] = e
		}
		e.place = place
		l.reserved = append(l.reserved, place.Position)
	}
}

// Write returns once all places are in the queue that were reserved before. They are
// published in the order in which they were reserved: if the process ends, the next one knows
// all places before each that it knows.
func (l *Log) Write(ctx context.Context) error {
	if l == nil {
		return nil
	}
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.writing }()
	messages, written := l.unwritten()
	for _, err := range l.cfg.Publisher.PublishAll(ctx, messages) {
		if err != nil {
			return fmt.Errorf("keep places of messages in queue %q: %w", l.cfg.Queue, err)
		}
	}
	written()
	return nil
}

// unwritten returns the messages for the reserved places, and a function for their success.
func (l *Log) unwritten() (messages []rabbit.Message, written func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := l.entries
	reserved := l.reserved
	for _, position := range reserved {
		e, known := entries[position]
		switch {
		case !known:
		case e.removed && e.published.IsZero():
			delete(entries, position)
		case !e.removed:
			body, _ := json.Marshal(e.place) // numbers, texts and a time
			messages = append(messages, l.message(amqp.Publishing{Body: body}))
			e.published = time.Now()
		}
	}
	return messages, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.reserved) >= len(reserved) { // otherwise another process has had the order
			l.reserved = l.reserved[len(reserved):]
		}
	}
}

func (l *Log) message(p amqp.Publishing) rabbit.Message {
	p.DeliveryMode = amqp.Persistent
	return rabbit.Message{Exchange: l.cfg.Exchange, RoutingKey: l.cfg.Queue, Publishing: p}
}

// Remove removes the place of a message that has an outcome.
func (l *Log) Remove(position int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, known := l.entries[position]; known {
		l.remove(position, e)
	}
}

func (l *Log) remove(position int64, e *entry) {
	if e.removed = true; e.tag != 0 && l.channel != nil && l.channel.Ack(e.tag, false) == nil {
		delete(l.entries, position) // otherwise once it is delivered
	}
}

// rewrite publishes old places once more, and removes the places of lost messages.
func (l *Log) rewrite(ctx context.Context) {
	l.mu.Lock()
	now := time.Now()
	for position, e := range l.entries {
		switch {
		case e.tag == 0, now.Sub(e.published) <= rewriteAfter:
		case now.Sub(e.place.Due) > lostAfter && !e.place.Due.IsZero():
			l.remove(position, e)
		default:
			l.reserved = append(l.reserved, position)
		}
	}
	l.mu.Unlock()
	if err := l.Write(ctx); err != nil && ctx.Err() == nil {
		l.cfg.Logger.Warn("the places of waiting messages are not kept; trying again", "error", err)
	}
}
