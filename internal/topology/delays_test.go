package topology

import (
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
)

// Several processes need the same new delays at once, and a message of each becomes due.
func TestProcessesDeclareDelaysAtOnce(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		const processes, delays = 4, 20
		cfg := named(t, b, Quorum)
		var reconcilers []Reconciler
		var publishers []*rabbit.Publisher
		for range processes {
			conn := connection(t, b)
			publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
			t.Cleanup(func() { publisher.Close() })
			publishers = append(publishers, publisher)
			reconcilers = append(reconcilers, Reconciler{Conn: conn, Config: cfg})
		}
		if err := reconcilers[0].Declare(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range delays {
			delay := time.Second + time.Duration(i)*time.Millisecond
			b.DeleteQueue(t, wire.DelaysOf(cfg.Topology).Queue(delay))
			var work sync.WaitGroup
			for p, r := range reconcilers {
				work.Go(func() {
					if err := r.DeclareDelay(t.Context(), delay); err != nil {
						t.Error(err)
					}
					m := rabbit.Message{Exchange: cfg.Direct(), RoutingKey: wire.DelaysOf(cfg.Topology).Queue(delay), Publishing: amqp.Publishing{DeliveryMode: amqp.Persistent}}
					for err := publishers[p].Publish(t.Context(), m); err != nil; err = publishers[p].Publish(t.Context(), m) {
						if t.Context().Err() != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
		}
		rabbittest.Eventually(t, "every message to become due", func() bool { return b.Len(t, cfg.Topology.Due()) >= processes*delays })
	})
}
