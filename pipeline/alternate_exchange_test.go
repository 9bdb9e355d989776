package pipeline

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Messages of queues that are not declared or bound yet come back where every exchange has
// an alternate exchange, which would take them.
func TestRetriesPastAnAlternateExchange(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Run("new", func(t *testing.T) { retryPastAlternate(t, b, false) })
		t.Run("former release", func(t *testing.T) { retryPastAlternate(t, b, true) })
	})
}

func retryPastAlternate(t *testing.T, b rabbittest.Broker, former bool) {
	b = b.VHost(t)
	admin := b.Channel(t)
	unrouted := alternate(t, b)
	exchange, foreign := topicExchange(t, b), rabbittest.Name(t)
	calls := newCounter()
	r := start(t, b, func(c *Config) {
		c.QueueType = Quorum
		c.Tap = []Tap{{Exchange: exchange, Type: "topic"}}
		c.Routes = []Route{{
			Queue: rabbittest.Name(t), Bind: []Binding{{exchange, "o.*"}}, Breaker: &retry.Breaker{}, Policy: attemptsAfter(10 * time.Millisecond),
			Handler: handler(func(msg *message.Message) error {
				e, _ := schemas.FromContext(msg.Context())
				if calls.add(e.Properties.MessageID) > 1 {
					return nil
				}
				if e.RoutingKey == "o.busy" {
					return retry.After(time.Second, errors.New("busy"))
				}
				return retry.Unavailable(errors.New("away"))
			}),
		}}
		if former {
			declareFormer(t, b, c.Topology, unrouted)
		}
	})
	b.DeleteQueue(t, foreign)
	if _, err := admin.QueueDeclare(foreign, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": r.topology.Retry()}); err != nil {
		t.Fatal(err)
	}
	if err := admin.QueueBind(foreign, "f", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ id, key string }{{"1", "o.busy"}, {"2", "o.busy"}, {"3", "o.away"}, {"4", "o.away"}} {
		r.publish(exchange, m.key, amqp.Publishing{MessageId: m.id})
	}
	r.publish(exchange, "f", amqp.Publishing{MessageId: "5"})
	for attempt := range 2 {
		var d amqp.Delivery
		rabbittest.Eventually(t, "the message is in the queue of another program", func() (there bool) {
			var err error
			if d, there, err = admin.Get(foreign, false); err != nil {
				t.Fatal(err)
			}
			return there
		})
		if attempt == 0 {
			_ = d.Reject(false)
		} else if _ = d.Ack(false); d.MessageId != "5" || d.RoutingKey != "f" {
			t.Errorf("message %s with routing key %s came back", d.MessageId, d.RoutingKey)
		}
	}
	r.waitFor(4, schemas.Handled)
	if n := b.Len(t, unrouted); n > 0 {
		t.Errorf("the alternate exchange got %d messages", n)
	}
}

// counter counts by names.
type counter struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

func newCounter() *counter { return &counter{n: map[string]int{}} }

func (c *counter) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[name]++
	return c.n[name]
}

// alternate gives every exchange of the virtual host an alternate exchange, and returns its
// queue.
func alternate(t *testing.T, b rabbittest.Broker) (queue string) {
	t.Helper()
	queue = rabbittest.Name(t)
	ch := b.Channel(t)
	b.DeleteQueue(t, queue)
	b.DeleteExchange(t, queue)
	if err := ch.ExchangeDeclare(queue, "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue, "", queue, false, nil); err != nil {
		t.Fatal(err)
	}
	if !b.Own {
		b.Policy(t, ".*", "exchanges", `{"alternate-exchange":"`+queue+`"}`)
	}
	return queue
}

// declareFormer declares the exchanges of Watership as a former release did. The embedded
// broker has no policies, so there they have the alternate exchange as an argument.
func declareFormer(t *testing.T, b rabbittest.Broker, names schemas.Topology, alternate string) {
	t.Helper()
	var args amqp.Table
	if b.Own {
		args = amqp.Table{"alternate-exchange": alternate}
	}
	ch := b.Channel(t)
	for name, kind := range map[string]string{
		names.Tap(): "fanout", names.Late(): "fanout", names.Events(): "topic", names.Retry(): "topic", names.Report(): "topic",
		names.Direct(): "direct", names.Return(): "headers", names.Pauses(): "direct",
	} {
		if err := ch.ExchangeDeclare(name, kind, true, false, name == names.Tap(), false, args); err != nil {
			t.Fatal(err)
		}
	}
}
