package broker_test

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// The messages of a queue that is deleted are those that are ready, and those that consumers have.
func TestDeleteQueue(t *testing.T) {
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			b := start(t, broker.Config{})
			ch := channel(t, connect(t, b))
			declare(t, ch, "q", amqp.Table{"x-queue-type": kind})
			declare(t, ch, "other", nil)
			for i := range 4 {
				publish(t, ch, "q", amqp.Publishing{Body: []byte(fmt.Sprint(i))})
			}
			publish(t, ch, "other", amqp.Publishing{})
			if _, _, err := ch.Get("other", false); err != nil {
				t.Fatal(err)
			}
			cancelled := ch.NotifyCancel(make(chan string, 1))
			if err := ch.Qos(2, 0, false); err != nil {
				t.Fatal(err)
			}
			deliveries, err := ch.Consume("q", "tag", false, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := receive(t, deliveries).Ack(false); err != nil {
				t.Fatal(err)
			}
			receive(t, deliveries)
			receive(t, deliveries)
			bodies, deleted := b.DeleteQueue("/", "q")
			if got := fmt.Sprintf("%s", bodies); !deleted || got != "[1 2 3]" {
				t.Errorf("deleted: %t, with %s", deleted, got)
			}
			receive(t, cancelled)
			if n := length(t, ch, "other"); n != 0 {
				t.Errorf("%d messages of another queue are ready, and one was taken", n)
			}
			if bodies, deleted := b.DeleteQueue("/", "q"); deleted {
				t.Errorf("it was deleted again, with %s", bodies)
			}
		})
	}
}

// An exclusive queue belongs to its connection.
func TestDeleteExclusiveQueue(t *testing.T) {
	b := start(t, broker.Config{})
	ch := channel(t, connect(t, b))
	if _, err := ch.QueueDeclare("q", false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, deleted := b.DeleteQueue("/", "q"); deleted {
		t.Error("it was deleted")
	}
}
