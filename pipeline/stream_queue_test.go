package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// A consumer of a stream skips what is published while it does not run, so no route begins to
// consume one.
func TestNoRouteConsumesAStream(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		const refused = "is a stream"
		queue, stream := rabbittest.Name(t), b.Queue(t, amqp.Table{"x-queue-type": "stream"})
		b.DeleteQueue(t, queue)
		ignore := handler(func(*message.Message) error { return nil })
		r := start(t, b, func(c *Config) { c.Routes = []Route{{Queue: queue, Handler: ignore}} })
		route := Route{Queue: stream, Handler: ignore}
		if err := r.reload(nil, r.cfg.Routes[0], route); err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("a reload with the stream: %v", err)
		}
		cfg := r.cfg
		cfg.Routes = append(slices.Clone(cfg.Routes), route)
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), stream) || !strings.Contains(err.Error(), refused) {
			t.Errorf("a pipeline with the stream: %v", err)
		}

		r.publish("", queue, amqp.Publishing{})
		r.wait(schemas.Handled)
		if _, err := r.admin.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		if _, err := r.admin.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "stream"}); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the log names the stream", func() bool {
			return strings.Contains(r.log.String(), "the queue is a stream")
		})
	})
}
