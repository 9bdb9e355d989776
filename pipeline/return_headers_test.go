package pipeline

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// TestMessagesThatFailAtTwoQueuesGoBackToBoth: they wait equally long, and differ only
// in Watership's headers. One of the queues is not bound to the return exchange yet, so that its
// messages are returned at first, by a broker that may change their headers.
func TestMessagesThatFailAtTwoQueuesGoBackToBoth(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, way := range []string{"as they are", "with a timestamp"} {
			t.Run(way, func(t *testing.T) {
				const messages = 60
				r := start(t, b, func(c *Config) {
					if way == "with a timestamp" {
						c.URL = b.Rewrite(t, rabbittest.SetTimestamp)
					}
					c.Default = attemptsAfter(500*time.Millisecond, 500*time.Millisecond)
				})
				exchange, ch := r.exchange(), b.Channel(t)
				var queues []<-chan amqp.Delivery
				for range 2 {
					queue := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry(), "x-queue-type": "quorum"})
					if err := ch.QueueBind(queue, "k", exchange, false, nil); err != nil {
						t.Fatal(err)
					}
					deliveries, err := b.Channel(t).Consume(queue, "", false, false, false, false, nil)
					if err != nil {
						t.Fatal(err)
					}
					queues = append(queues, deliveries)
				}
				// One message, and so the first queue is bound.
				r.publish(exchange, "k", amqp.Publishing{Body: []byte("first")})
				for i, deliveries := range queues {
					d := rabbittest.Receive(t, deliveries)
					if i > 0 {
						_ = d.Ack(false)
						continue
					}
					_ = d.Reject(false)
					_ = rabbittest.Receive(t, deliveries).Ack(false)
				}
				for i := range messages {
					r.publish(exchange, "k", amqp.Publishing{Body: fmt.Append(nil, i), DeliveryMode: amqp.Persistent})
				}
				failed := make([][]amqp.Delivery, len(queues))
				for i, deliveries := range queues {
					for range messages {
						failed[i] = append(failed[i], rabbittest.Receive(t, deliveries))
					}
				}
				for n := range messages { // each at both queues, one right after the other
					for i := range queues {
						if err := failed[i][n].Reject(false); err != nil {
							t.Fatal(err)
						}
					}
				}
				for i, deliveries := range queues {
					seen := map[string]bool{}
					for range messages {
						d := rabbittest.Receive(t, deliveries)
						if seen[string(d.Body)] {
							t.Errorf("queue %d: message %s came twice", i, d.Body)
						}
						seen[string(d.Body)] = true
						_ = d.Ack(false)
					}
				}
			})
		}
	})
}
