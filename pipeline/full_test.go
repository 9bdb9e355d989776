package pipeline

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A policy of the operator limits a delay queue, which fills. If it drops its oldest messages, they have their
// next attempt early, as dead letters. If it refuses new ones, these wait at their route, and their handlers
// run once. None is lost or given up.
func TestPoliciesThatFillADelayQueue(t *testing.T) {
	t.Parallel() // most of it is waiting
	for overflow, drops := range map[string]bool{"drop-head": true, "reject-publish": false} {
		for _, kind := range []QueueType{Quorum, Classic} {
			t.Run(overflow+" "+string(kind), func(t *testing.T) {
				rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) { testFilledDelayQueue(t, b, kind, overflow, drops) })
			})
		}
	}
}

func testFilledDelayQueue(t *testing.T, b rabbittest.Broker, kind QueueType, overflow string, drops bool) {
	const messages, limit, delay = 12, 3, time.Hour
	queue, delayed, lift := rabbittest.Name(t), "", func() {}
	var failed atomic.Int64
	r := start(t, b, func(c *Config) {
		delayed = wire.DelaysOf(c.Topology).Queue(delay)
		lift = b.LimitQueue(t, delayed, limit, overflow)
		c.QueueType = kind
		c.Routes = []Route{{
			Queue: queue, Concurrency: messages, Policy: attemptsAfter(delay), Breaker: &retry.Breaker{Messages: -1},
			Handler: handler(func(msg *message.Message) error {
				err := onAttempt(msg, 1, errBroken)
				if err != nil {
					failed.Add(1)
				}
				return err
			}),
		}}
	})
	for i := range messages {
		r.publish("", queue, amqp.Publishing{Body: fmt.Append(nil, i)})
	}
	rabbittest.Eventually(t, "all have failed once, and the delay queue is full", func() bool {
		return failed.Load() >= messages && b.Len(t, delayed) >= limit
	})
	handled := func() int { return len(r.all(ofQueue(queue, schemas.Handled))) }
	want := 0
	if drops {
		want = messages - limit
	}
	rabbittest.Eventually(t, "those that the queue dropped are handled", func() bool { return handled() == want })
	if n := b.Len(t, delayed); n > limit && (drops || kind == Classic) || n >= messages { // a quorum queue refuses late
		t.Errorf("the delay queue has %d messages, and the limit is %d", n, limit)
	}
	lift()
	rabbittest.Eventually(t, "all others wait in the delay queue", func() bool { return b.Len(t, delayed) == messages-want })
	if n := failed.Load(); n != messages {
		t.Errorf("%d first attempts of %d messages", n, messages)
	}
	if lost := r.all(ofQueue(queue, schemas.Poisoned)); len(lost) > 0 || handled() != want {
		t.Error(r.eventText())
	}
}

// A policy of the operator limits the queue of due messages, which fills while no process runs. The others wait in
// their delay queue, and go on after that: RabbitMQ tries again after three minutes, the embedded broker sooner.
func TestPolicyThatFillsTheQueueOfDueMessages(t *testing.T) {
	t.Parallel() // most of it is waiting
	b := rabbittest.Embedded(t)
	const messages, delay = 12, 500 * time.Millisecond
	queue := rabbittest.Name(t)
	r := start(t, b, func(c *Config) {
		b.LimitQueue(t, c.Topology.Due(), 2, "")
		c.Routes = []Route{{
			Queue: queue, Concurrency: messages, Policy: attemptsAfter(delay), Breaker: &retry.Breaker{Messages: -1},
			Handler: handler(func(msg *message.Message) error { return onAttempt(msg, 1, errBroken) }),
		}}
	})
	for i := range messages {
		r.publish("", queue, amqp.Publishing{Body: fmt.Append(nil, i), DeliveryMode: amqp.Persistent})
	}
	r.waitFor(messages, schemas.RetryScheduled)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "all have waited, and the queue of due messages is full", func() bool {
		return b.Len(t, wire.DelaysOf(r.topology).Queue(delay)) == 0 && b.Len(t, r.topology.Due()) >= 2
	})
	r.run()
	r.waitFor(messages, schemas.Handled)
}
