package amqpstream

import (
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Consumer has the deliveries of one consumer. A Conn decodes them in place of the client
// library, which takes 150 allocations and two goroutines for each.
type Consumer struct {
	Tag string // on the connection

	acknowledger amqp.Acknowledger
	consumers    *consumers
	ready        chan struct{}

	mu         sync.Mutex // guards the fields below
	deliveries []amqp.Delivery
	closed     bool
}

// Consumer returns a consumer that the caller starts, on a channel with the acknowledger. Its
// deliveries do not reach the client library. Its tag is the given one with a number, unless
// it is the first of the connection: no other consumer of the connection has it, or had it.
func (c *Conn) Consumer(tag string, acknowledger amqp.Acknowledger) *Consumer {
	consumer := &Consumer{Tag: tag, acknowledger: acknowledger, consumers: &c.in.consumers, ready: make(chan struct{}, 1)}
	c.in.consumers.add(consumer)
	return consumer
}

// Ready receives a value when there are deliveries.
func (c *Consumer) Ready() <-chan struct{} { return c.ready }

// reusedDeliveries bounds the memory that a consumer keeps for later deliveries.
const reusedDeliveries = 256

// Take returns the deliveries that have arrived, in order. It reuses the memory of those
// that it returned before.
func (c *Consumer) Take(before []amqp.Delivery) []amqp.Delivery {
	clear(before)
	if cap(before) > reusedDeliveries {
		before = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.deliveries
	c.deliveries = before[:0]
	return taken
}

// Close drops the deliveries, also those that still arrive until the broker has ended the
// consumer: those reach the client library.
func (c *Consumer) Close() {
	c.consumers.remove(c.Tag)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.deliveries = true, nil
}

func (c *Consumer) put(d *amqp.Delivery) {
	c.mu.Lock()
	if !c.closed {
		c.deliveries = append(c.deliveries, *d)
	}
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// consumers are the consumers of a connection.
type consumers struct {
	mu    sync.Mutex // guards the fields below
	byTag map[string]*Consumer
	total int // of consumers so far
}

func (l *consumers) add(c *Consumer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byTag == nil {
		l.byTag = map[string]*Consumer{}
	}
	if l.total > 0 {
		c.Tag += "-" + strconv.Itoa(l.total)
	}
	l.total++
	l.byTag[c.Tag] = c
}

func (l *consumers) remove(tag string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byTag, tag)
}

// find returns the consumer with a tag, nil without one.
func (l *consumers) find(tag string) *Consumer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byTag[tag]
}
