package indexer

import (
	"context"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// A session that is lost just as its prefetch changes is opened again with the former one: that of the first
// session has room for two messages, and would stay until the process ends.
func TestThePrefetchChangesAlthoughTheSessionIsLost(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		s := newSystem(t, b)
		proxy := b.NamedProxy(t)
		losing := &losingBroker{
			queue: s.topology.Index(), lose: func() { proxy.Close(t.Name()) }, prefetches: make(chan int, 100),
		}
		s.startAt(proxy.URL, newStore(t, b), func(c *Config) {
			losing.Broker = c.Broker
			c.Broker = losing
		})
		first := rabbittest.Receive(t, losing.prefetches)
		s.publish(s.messages("m", first)...)
		if second := rabbittest.Receive(t, losing.prefetches); second <= first {
			t.Errorf("the prefetch is %d after %d", second, first)
		}
	})
}

// losingBroker is a broker whose first session of a queue is lost when the indexer ends it.
type losingBroker struct {
	Broker
	queue      string
	lose       func()
	once       sync.Once
	prefetches chan int // of the calls of Consume with the queue
}

func (b *losingBroker) Consume(ctx context.Context, queue string, prefetch int, f func(context.Context, <-chan amqp.Delivery) error) error {
	if queue != b.queue {
		return b.Broker.Consume(ctx, queue, prefetch, f)
	}
	b.prefetches <- prefetch
	return b.Broker.Consume(ctx, queue, prefetch, func(session context.Context, deliveries <-chan amqp.Delivery) error {
		err := f(session, deliveries)
		b.once.Do(func() {
			b.lose()
			<-session.Done()
		})
		return err
	})
}
