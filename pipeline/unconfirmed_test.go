package pipeline

import (
	"fmt"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// A queue that confirms nothing, as a quorum queue without a majority: more messages
// than the retry handler moves at once are due for it, and those of another queue come
// back all the same. None of its own is lost or given up.
func TestQueueThatDoesNotConfirm(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const messages = roleConcurrency + 50
		stuck := rabbittest.Name(t)
		url, recovers := b.Unconfirmed(t, stuck)
		r := start(t, b, func(c *Config) {
			c.URL, c.ReturnPause, c.ConfirmTimeout = url, 100*time.Millisecond, time.Second
		})
		args := amqp.Table{"x-dead-letter-exchange": r.topology.Retry()}
		declareFor(t, b, stuck, args)
		for i := range messages {
			r.publish("", stuck, amqp.Publishing{Body: []byte(fmt.Sprint(i))})
		}
		rejectMany(t, b, stuck, messages)
		r.waitFor(messages, schemas.RetryScheduled)
		other := b.Queue(t, args)
		publishTo(t, b, other, "x")
		rejectOne(t, b, other)
		if d := b.Take(t, other, 1)[0]; string(d.Body) != "x" {
			t.Errorf("%+v", d)
		}
		recovers()
		came := map[string]bool{}
		deliveries, err := b.Channel(t).Consume(stuck, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for len(came) < messages {
			came[string(rabbittest.Receive(t, deliveries).Body)] = true
		}
		if given := r.all(func(e event) bool { return e.Action == schemas.Poisoned }); len(given) > 0 {
			t.Errorf("given up: %+v", given)
		}
	})
}

// rejectMany leaves its channel open: when a channel closes, a quorum queue requeues the
// messages whose rejections it has not processed yet.
func rejectMany(t *testing.T, b rabbittest.Broker, queue string, n int) {
	t.Helper()
	ch := b.Channel(t)
	deliveries, err := ch.Consume(queue, "rejecting", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		d := rabbittest.Receive(t, deliveries)
		if err := d.Reject(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := ch.Cancel("rejecting", false); err != nil {
		t.Fatal(err)
	}
}

// A quorum queue that stands still, as one does that has no majority, on RabbitMQ
// itself, which stops reading a connection that waits for too many of its confirms:
// the messages of others go on.
func TestSoakQuorumQueueWithoutMajority(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	rabbittest.NeedServices(t)
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		const messages, others = roleConcurrency + 50, 1000
		r := start(t, b, func(c *Config) {
			c.ReturnPause, c.ConfirmTimeout = 100*time.Millisecond, 500*time.Millisecond
			c.Default = attemptsAfter(5 * time.Second)
		})
		args := amqp.Table{"x-dead-letter-exchange": r.topology.Retry(), "x-queue-type": "quorum"}
		still, other := b.Queue(t, args), b.Queue(t, args)
		for i := range messages {
			r.publish("", still, amqp.Publishing{Body: fmt.Append(nil, i)})
		}
		process := fmt.Sprintf("whereis('%%2F_%s')", still)
		t.Cleanup(func() { b.Service(t, "ctl", "eval", "sys:resume("+process+").") })
		rejectMany(t, b, still, messages)
		r.waitFor(messages, schemas.RetryScheduled)
		b.Service(t, "ctl", "eval", "sys:suspend("+process+").")
		for range 3 {
			for i := range others {
				r.publish("", other, amqp.Publishing{Body: fmt.Append(nil, i)})
			}
			rejectMany(t, b, other, others)
			b.Take(t, other, others)
		}
		b.Service(t, "ctl", "eval", "sys:resume("+process+").")
		came := map[string]bool{}
		deliveries, err := b.Channel(t).Consume(still, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for len(came) < messages {
			came[string(rabbittest.Receive(t, deliveries).Body)] = true
		}
	})
}
