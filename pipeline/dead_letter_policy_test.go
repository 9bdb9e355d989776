package pipeline

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// RabbitMQ applies a policy within milliseconds, and tells a queue's policy up to ten seconds later.
// A queue that has its dead-letter exchange by a policy has its messages retried from the first one.
func TestDeadLetterExchangeOfANewPolicy(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		b = b.VHost(t)
		r := start(t, b, func(c *Config) { c.ManagementURL = b.ManagementURL })
		for name, args := range map[string]amqp.Table{"classic": nil, "quorum": {"x-queue-type": "quorum"}} {
			b.Policy(t, "^new."+name, "queues", `{"dead-letter-exchange":"`+r.topology.Retry()+`"}`)
			if _, err := b.Channel(t).QueueDeclare("new."+name, true, false, false, false, args); err != nil {
				t.Fatal(err)
			}
			b.DeleteQueue(t, "new."+name)
			publishTo(t, b, "new."+name, name)
			rejectOne(t, b, "new."+name)
			rabbittest.Eventually(t, "an event", func() bool { return len(r.all(ofMessage(name))) > 0 })
			first := r.all(ofMessage(name))[0]
			if first.Action != schemas.RetryScheduled || first.Queue != "new."+name || first.Attempt != 1 {
				t.Errorf("%s: %s %+v", name, first.Action, first.State)
			}
		}
	})
}

func ofMessage(body string) func(event) bool {
	return func(e event) bool { return string(e.Envelope.Body) == body }
}
