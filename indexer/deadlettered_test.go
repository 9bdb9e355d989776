package indexer

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// A tapped exchange gets equal dead letters. RabbitMQ 4 marks the copies of such as redelivered at
// their first delivery: on quorum queues, and 4.3 on classic queues, too.
func TestEqualDeadLettersStayTwo(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		s, store := newSystem(t, b), newStore(t, b)
		ch := s.Channel(t)
		queue := s.Queue(t, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": s.shop, "x-dead-letter-routing-key": "failed"})
		deadLetter := func() {
			t.Helper()
			if err := ch.Publish("", queue, false, false, amqp.Publishing{MessageId: "m-1", DeliveryMode: amqp.Persistent, Body: []byte("1")}); err != nil {
				t.Fatal(err)
			}
			rabbittest.Eventually(t, "a message to reject", func() bool {
				d, found, err := ch.Get(queue, false)
				if err != nil {
					t.Fatal(err)
				}
				return found && d.Reject(false) == nil
			})
		}
		deadLetter()
		deadLetter()
		i := s.start(store, nil)
		s.wait(store, 2)
		deadLetter()
		s.wait(store, 3)
		s.finish(store, 3, i)
	})
}
