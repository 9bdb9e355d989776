package transport

import (
	"testing"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// TestConformance is Watermill's own suite: ordered at concurrency 1, unordered above.
func TestConformance(t *testing.T) {
	for name, concurrency := range map[string]int{"ordered": 1, "unordered": 16} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
				conformance(t, b, concurrency)
			})
		})
	}
}

func conformance(t *testing.T, b rabbittest.Broker, concurrency int) {
	construct := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		cfg := wamqp.NewDurablePubSubConfig(b.URL, func(topic string) string {
			queue := topic + "_" + group
			b.DeleteQueue(t, queue)
			b.DeleteExchange(t, topic)
			return queue
		})
		cfg.Marshaler = nil
		p, err := NewPublisher(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSubscriber(cfg, nil, Concurrency(concurrency), StopTimeout(time.Second), NackBackoff(time.Millisecond, 5*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		return p, s
	}
	tests.TestPubSub(t,
		tests.Features{
			ConsumerGroups:                      true,
			GuaranteedOrder:                     concurrency == 1,
			GuaranteedOrderWithSingleSubscriber: true,
			Persistent:                          true,
		},
		func(t *testing.T) (message.Publisher, message.Subscriber) { return construct(t, "test") },
		construct,
	)
}
