package rabbittest

import (
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// observers are the channels by which tests look at queues. Tests ask until something is so,
// and a connection for each question would be most of the work of a broker.
type observers struct {
	mu  sync.Mutex // guards all, and is held while a test uses a channel
	all map[observer]*amqp.Channel
}

// observer is a test and the broker that it asks.
type observer struct {
	test testing.TB
	url  string
}

// observe calls use with a channel, which only this call uses. The channel is closed when the
// test ends.
func (b Broker) observe(t testing.TB, use func(ch *amqp.Channel) error) error {
	t.Helper()
	if b.observers == nil {
		ch := b.Channel(t)
		defer ch.Close()
		return use(ch)
	}
	b.observers.mu.Lock()
	defer b.observers.mu.Unlock()
	return use(b.observers.channel(t, b))
}

// channel returns the channel of a test, and opens one if none exists, or if it is closed.
func (o *observers) channel(t testing.TB, b Broker) *amqp.Channel {
	t.Helper()
	key := observer{t, b.URL}
	ch, there := o.all[key]
	if there && !ch.IsClosed() {
		return ch
	}
	ch = b.Channel(t)
	if !there {
		t.Cleanup(func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.all, key)
		})
	}
	o.all[key] = ch
	return ch
}

// leaderTimeout is a little less than the time after which RabbitMQ answers that a quorum queue is empty, in place of
// its leader.
const leaderTimeout = 200 * time.Millisecond

// Look returns the numbers of ready messages and of consumers of a queue, as its leader knows them.
func (b Broker) Look(t testing.TB, queue string) (q amqp.Queue) {
	t.Helper()
	ask := func(ch *amqp.Channel) (err error) {
		for range 5 { // one that is still away then is away for the test
			asked := time.Now()
			q, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			if err != nil || q.Messages > 0 || q.Consumers > 0 || time.Since(asked) < leaderTimeout {
				break
			}
		}
		return err
	}
	err := b.observe(t, ask)
	if err != nil { // the connection may have been cut since the last time
		err = b.observe(t, ask)
	}
	if err != nil {
		t.Fatalf("look at queue %s: %v", queue, err)
	}
	return q
}

// Len returns the number of ready messages in a queue.
func (b Broker) Len(t testing.TB, queue string) int {
	t.Helper()
	return b.Look(t, queue).Messages
}

// Publish publishes a message to a queue. The broker has it when Publish returns.
func (b Broker) Publish(t testing.TB, queue string, p amqp.Publishing) {
	t.Helper()
	err := b.observe(t, func(ch *amqp.Channel) error {
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, p); err != nil {
			return err
		}
		return ch.Qos(1, 0, false) // it has no effect without consumers; its answer follows the message
	})
	if err != nil {
		t.Fatalf("publish to queue %s: %v", queue, err)
	}
}
