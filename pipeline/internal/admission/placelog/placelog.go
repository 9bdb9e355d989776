// Package placelog keeps the places of messages in the order of their keys in a queue, so that
// the next process of a route knows them. The process that has the order of a route has an
// exclusive queue on the connection by which it consumes the messages. It alone consumes the
// places, and acknowledges them once they are out of date.
package placelog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/internal/admission/fairness"
)

// Config configures a Log.
type Config struct {
	Route     string // queue with the messages
	Queue     string // with the places, which exists
	Exchange  string // routes to it by its name
	Lock      string // exclusive queue of the process that has the order
	Publisher publisher
	Gate      gate
	Unordered bool             // the queue of the route gives messages back in another order
	Standby   prometheus.Gauge // 1 while another process has the order
	Logger    *slog.Logger
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

	// Withdraw removes the place of a message that does not come any more.
	Withdraw(p fairness.Place)
}

// Log is the log of one route. A nil Log keeps nothing.
type Log struct {
	cfg     Config
	opening chan struct{} // a token for Acquire
	writing chan struct{} // a token for Write

	work sync.WaitGroup // of holdings

	mu      sync.Mutex    // guards the fields below
	holding *holding      // nil: another process may have the order
	standby time.Time     // since when it waits for another process
	channel *amqp.Channel // of the places; nil: no consumer
	entries map[int64]*entry

	reserved []int64 // positions of entries to be published
}

// record is a place as it is in the queue.
type record struct {
	fairness.Place
	Version int  `json:"version,omitempty"` // the highest counts, if there are several
	Copy    int  `json:"copy,omitempty"`    // how many times the place has been published, with this one
	Gone    bool `json:"gone,omitempty"`    // the message with the position does not come any more
	Moved   bool `json:"moved,omitempty"`   // the message with the position is due at another time
}

// Withdrawal returns a message for a queue of places: the one with a position does not come any
// more, as its last attempt was cancelled. Any process may publish it.
func Withdrawal(position int64) amqp.Publishing {
	return publishing(record{Place: fairness.Place{Position: position}, Gone: true})
}

// Postponement returns a message for a queue of places: the one with a position waits in delay
// queues until another time. Any process may publish it.
func Postponement(position int64, due time.Time) amqp.Publishing {
	return publishing(record{Place: fairness.Place{Position: position, Due: due}, Moved: true})
}

func publishing(r record) amqp.Publishing {
	body, _ := json.Marshal(r) // numbers and texts
	return amqp.Publishing{Body: body, DeliveryMode: amqp.Persistent}
}

// entry is a place that is in the queue, or being published.
type entry struct {
	place     fairness.Place
	version   int
	published time.Time     // at this time, or later by another process
	copies    int           // times that it was published; the broker may have refused some
	arrived   int           // latest of the copies that was delivered: earlier ones do not come any more
	tag       uint64        // of its delivery; 0: not delivered yet
	delivered int           // version of that delivery
	removed   bool          // acknowledge it once it is delivered
	acked     chan struct{} // nil unless a call of Remove waits; closed then
}

const (
	// rewriteAfter is the age of a delivery at which its place is published once more: a
	// channel is closed whose deliveries are older than consumer_timeout, by default 30
	// minutes (https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout).
	rewriteAfter = 10 * time.Minute
	rewriteEvery = time.Minute

	// removeTimeout bounds the wait for a place that was published and may not be in the queue.
	removeTimeout = 2 * time.Second

	// lostAfter is the time after which a place is removed whose message did not return.
	lostAfter = 24 * time.Hour
)

// awaited reports whether a copy of the place may still be delivered.
func (e *entry) awaited() bool { return e.copies > e.arrived }

// New returns a Log without a consumer.
func New(cfg Config) *Log {
	return &Log{cfg: cfg, opening: make(chan struct{}, 1), writing: make(chan struct{}, 1), entries: map[int64]*entry{}}
}

// delivered keeps a delivery until its place is out of date. A place of another process is
// news for the gate. postponed is whether a place has another time, which Write publishes.
func (l *Log) delivered(d amqp.Delivery) (postponed bool) {
	var r record
	if err := json.Unmarshal(d.Body, &r); err != nil || r.Position <= 0 {
		if d.MessageId == "" {
			l.cfg.Logger.Warn("a message in the queue of places cannot be read; it is dropped", "queue", l.cfg.Queue, "error", err)
		}
		_ = d.Ack(false) // an end of readAll that was not read, or rubbish; if the channel is lost, it is redelivered
		return false
	}
	switch {
	case r.Gone:
		l.withdraw(r.Position, r.Copy)
		_ = d.Ack(false)
		return false
	case r.Moved:
		postponed = l.postpone(r.Position, r.Due)
		_ = d.Ack(false)
		return postponed
	}
	if l.keep(r, d) {
		l.cfg.Gate.Remember(r.Place)
	}
	return false
}

// withdraw removes a place that is in the queue, or being published.
func (l *Log) withdraw(position int64, number int) {
	l.mu.Lock()
	e, known := l.entries[position]
	var place fairness.Place
	news := known && !e.removed
	if known {
		place, e.arrived = e.place, max(e.arrived, number)
		l.remove(position, e)
	}
	l.mu.Unlock()
	if news {
		l.cfg.Gate.Withdraw(place)
	}
}

// postpone changes the time of a place that is in the queue, or being published, if its message is not back.
func (l *Log) postpone(position int64, due time.Time) (changed bool) {
	l.mu.Lock()
	e, known := l.entries[position]
	if !known || e.removed || e.place.Due.IsZero() {
		l.mu.Unlock()
		return false
	}
	place := e.place
	place.Due = due
	l.reserve(place)
	l.mu.Unlock()
	l.cfg.Gate.Remember(place)
	return true
}

// keep reports whether the place is news.
func (l *Log) keep(r record, d amqp.Delivery) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, known := l.entries[r.Position]
	if !known {
		e = &entry{published: time.Now()}
		l.entries[r.Position] = e
	}
	e.copies, e.arrived = max(e.copies, r.Copy), max(e.arrived, r.Copy)
	if news = !known || r.Version > e.version; news {
		e.place, e.version = r.Place, r.Version
	}
	switch {
	case e.tag == 0:
		e.tag, e.delivered = d.DeliveryTag, r.Version
	case r.Version < e.delivered:
		_ = d.Ack(false)
	default:
		_ = d.Acknowledger.Ack(e.tag, false)
		e.tag, e.delivered = d.DeliveryTag, r.Version
	}
	if e.removed {
		l.remove(r.Position, e)
	}
	return news
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
		l.reserve(place)
	}
}

// Arrived is Reserve for the place of a message that has arrived. If it returned from a delay queue,
// the next process must know that it is no longer there. If it did not, its place is only needed
// where the queue of the route gives messages back in another order.
func (l *Log) Arrived(place fairness.Place) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, known := l.entries[place.Position]; known && !e.place.Due.IsZero() || !known && l.cfg.Unordered {
		l.reserve(place)
	}
}

// reserve makes the next Write publish a place. The caller holds mu.
func (l *Log) reserve(place fairness.Place) {
	e, known := l.entries[place.Position]
	if !known {
		e = &entry{}
		l.entries[place.Position] = e
	}
	e.place = place
	e.version++
	l.reserved = append(l.reserved, place.Position)
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
		case !e.removed, e.awaited(): // the delivery of another copy shows that the earlier ones do not come
			e.copies++
			body, _ := json.Marshal(record{Place: e.place, Version: e.version, Copy: e.copies, Gone: e.removed}) // numbers, texts and a time
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

// Remove removes the place of a message that has an outcome, before it is acknowledged: a place
// that is left makes the next process wait for its message. So it waits until the queue has
// delivered the place, but not for long.
func (l *Log) Remove(ctx context.Context, position int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	e, known := l.entries[position]
	var acked <-chan struct{}
	unwritten := false
	if known {
		if l.remove(position, e); !e.published.IsZero() {
			acked, unwritten = e.acked, slices.Contains(l.reserved, position)
		}
	}
	l.mu.Unlock()
	if acked != nil && unwritten {
		l.writeReserved(ctx) // its latest copy may have been refused, and never be delivered
	}
	if acked != nil {
		timer := time.NewTimer(removeTimeout)
		defer timer.Stop()
		select {
		case <-acked:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// remove acknowledges a place once its last copy is delivered. Until then it sets acked of the entry,
// and does so on that delivery. The caller holds mu.
func (l *Log) remove(position int64, e *entry) {
	e.removed = true
	switch {
	case e.awaited(), e.copies == 0 && e.tag == 0:
		if e.acked == nil {
			e.acked = make(chan struct{})
		}
	case e.tag == 0, l.channel != nil && l.channel.Ack(e.tag, false) == nil:
		delete(l.entries, position)
		if e.acked != nil {
			close(e.acked)
			e.acked = nil
		}
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
	l.writeReserved(ctx)
}

func (l *Log) writeReserved(ctx context.Context) {
	if err := l.Write(ctx); err != nil && ctx.Err() == nil {
		l.cfg.Logger.Warn("the places of waiting messages are not kept; trying again", "error", err)
	}
}
