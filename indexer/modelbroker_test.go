package indexer

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// modelBroker has queues with a single active consumer, in memory.
type modelBroker struct {
	mu     sync.Mutex // guards all queues and consumers
	queues map[string]*modelQueue
}

type modelQueue struct {
	ready     []amqp.Delivery
	consumers []*modelConsumer // the first one is active
	published int
}

// modelConsumer is a consumer and its channel.
type modelConsumer struct {
	broker     *modelBroker
	queue      *modelQueue
	prefetch   int
	deliveries chan amqp.Delivery
	unacked    []amqp.Delivery
	tag        uint64
	removed    bool // the broker has closed the channel
	told       bool // the client knows
	lose       context.CancelCauseFunc
}

var errModelLost = errors.New("the connection is lost")

func (b *modelBroker) publish(queue string, d amqp.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[queue]
	q.published++
	q.ready = append(q.ready, d)
	q.deliver()
}

// inspect answers as RabbitMQ does: now and then the leader of the queue is silent, and of the
// consumers only the active one counts.
func (b *modelBroker) inspect(queue string) queueCounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[queue]
	if rand.IntN(5) == 0 {
		return queueCounts{}
	}
	return queueCounts{messages: len(q.ready), consumers: min(1, len(q.consumers))}
}

// empty reports whether every message is acknowledged.
func (b *modelBroker) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.queues {
		if len(q.ready) > 0 || slices.ContainsFunc(q.consumers, func(c *modelConsumer) bool { return len(c.unacked) > 0 }) {
			return false
		}
	}
	return true
}

// deliver needs the broker's lock.
func (q *modelQueue) deliver() {
	for len(q.consumers) > 0 && len(q.ready) > 0 {
		c := q.consumers[0]
		if len(c.unacked) >= c.prefetch {
			return
		}
		d := q.ready[0]
		q.ready = q.ready[1:]
		c.tag++
		d.DeliveryTag, d.Acknowledger = c.tag, c
		c.unacked = append(c.unacked, d)
		c.deliveries <- d
	}
}

func (b *modelBroker) consume(ctx context.Context, queue string, prefetch int) (*modelConsumer, context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	session, lose := context.WithCancelCause(ctx)
	c := &modelConsumer{broker: b, queue: b.queues[queue], prefetch: prefetch, deliveries: make(chan amqp.Delivery, prefetch), lose: lose}
	c.queue.consumers = append(c.queue.consumers, c)
	c.queue.deliver()
	return c, session
}

// remove requeues the unacknowledged messages, as the broker does when it closes a channel.
func (c *modelConsumer) remove() {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.removed {
		return
	}
	c.removed = true
	c.queue.consumers = slices.DeleteFunc(c.queue.consumers, func(other *modelConsumer) bool { return other == c })
	requeued := make([]amqp.Delivery, 0, len(c.unacked)+len(c.queue.ready))
	for _, d := range c.unacked {
		count, _ := d.Headers["x-delivery-count"].(int64)
		d.Headers = maps.Clone(d.Headers)
		if d.Headers == nil {
			d.Headers = amqp.Table{}
		}
		d.Headers["x-delivery-count"], d.Redelivered = count+1, true
		requeued = append(requeued, d)
	}
	c.unacked = nil
	c.queue.ready = append(requeued, c.queue.ready...)
	c.queue.deliver()
}

// tell ends the session at the client. It returns false if it had ended.
func (c *modelConsumer) tell() bool {
	c.remove()
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.told {
		return false
	}
	c.told = true
	c.lose(errModelLost)
	close(c.deliveries)
	return true
}

func (c *modelConsumer) Ack(tag uint64, _ bool) error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.told {
		return amqp.ErrClosed
	}
	for len(c.unacked) > 0 && c.unacked[0].DeliveryTag <= tag {
		c.unacked = c.unacked[1:]
	}
	c.queue.deliver()
	return nil
}

func (c *modelConsumer) Nack(uint64, bool, bool) error { return errors.ErrUnsupported }
func (c *modelConsumer) Reject(uint64, bool) error     { return errors.ErrUnsupported }

// modelConnection is the connection of a process, which reconnects.
type modelConnection struct {
	broker *modelBroker

	mu        sync.Mutex // guards the fields below
	consumers []*modelConsumer
	dead      bool
}

func (m *modelConnection) Do(context.Context, func(*amqp.Channel) error) error {
	return errors.ErrUnsupported
}

func (m *modelConnection) ServerVersion(context.Context) (string, error) { return "4.3.6", nil }

func (m *modelConnection) Consume(ctx context.Context, queue string, prefetch int, f func(context.Context, <-chan amqp.Delivery) error) error {
	for ctx.Err() == nil {
		c, session := m.open(ctx, queue, prefetch)
		if c == nil {
			break
		}
		err := f(session, c.deliveries)
		live := c.tell()
		if live && ctx.Err() == nil {
			return err
		}
		_ = pause(ctx, 1, rand.N(200*time.Millisecond))
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (m *modelConnection) open(ctx context.Context, queue string, prefetch int) (*modelConsumer, context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, nil
	}
	c, session := m.broker.consume(ctx, queue, prefetch)
	m.consumers = append(m.consumers, c)
	return c, session
}

// cut loses the connection. The client knows some time later.
func (m *modelConnection) cut(later time.Duration, dead bool) {
	m.mu.Lock()
	lost := m.consumers
	m.consumers, m.dead = nil, m.dead || dead
	m.mu.Unlock()
	for _, c := range lost {
		c.remove()
	}
	time.AfterFunc(later, func() {
		for _, c := range lost {
			c.tell()
		}
	})
}
