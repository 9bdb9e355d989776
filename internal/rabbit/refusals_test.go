package rabbit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// A policy fills a quorum queue, which refuses messages. It takes them again once the policy is gone: RabbitMQ 3.10
// does not tell the channel that it refused.
func TestQueueWithoutItsLimitTakesMessages(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		lift := b.LimitQueue(t, queue, 1, "reject-publish")
		ch := b.Channel(t)
		if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		b.DeleteQueue(t, queue)
		p := publisherWith(t, open(t, b.URL, nil), PublisherConfig{Refusals: 50 * time.Millisecond})
		refused := func() bool {
			err := p.Publish(testContext(t), to(queue, "message"))
			var nacked *NackedError
			if err != nil && !errors.As(err, &nacked) {
				t.Fatal(err)
			}
			return err != nil
		}
		rabbittest.Eventually(t, "the queue is full", refused)
		lift()
		rabbittest.Eventually(t, "the queue takes messages", func() bool { return !refused() })
	})
}

// A channel that refused a message is replaced however late the next message comes, and is used further while a
// queue confirms nothing.
func TestChannelsThatRefuseAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		if r.areOld(0) {
			t.Error("without a refusal")
		}
		r.add()
		for _, pause := range []time.Duration{defaultRefusals, time.Hour} {
			time.Sleep(pause)
			if !r.areOld(defaultRefusals) || !r.awaitConfirms() {
				t.Error(pause)
			}
			time.Sleep(confirmsTimeout)
			if r.awaitConfirms() || r.areOld(defaultRefusals) {
				t.Error("a queue that confirms nothing holds up the others")
			}
		}
	})
}
