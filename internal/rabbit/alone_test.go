package rabbit

import (
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// Channels of two connections, two of each, never work at the same time. A login without the right to keep the
// others away does not wait for ever.
func TestDoAlone(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		b.DeleteQueue(t, queue+aloneSuffix)
		var working, most, done atomic.Int32
		var all sync.WaitGroup
		for range 2 {
			conn := open(t, b.URL, nil)
			for range 2 {
				all.Go(func() {
					for range 5 {
						err := DoAlone(t.Context(), conn, queue, func(ch *amqp.Channel) error {
							if working.Add(1) > 1 {
								most.Store(2)
							}
							defer working.Add(-1)
							done.Add(1)
							return ch.ExchangeDeclarePassive("amq.topic", "topic", true, false, false, false, nil) // takes some time
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if most.Load() > 1 || done.Load() != 20 {
			t.Errorf("%d worked, some at the same time: %v", done.Load(), most.Load() > 1)
		}
		reader := open(t, b.VHost(t).Login(t, rabbittest.Rights{Read: ".*"}).URL, nil)
		if err := DoAlone(t.Context(), reader, queue, func(*amqp.Channel) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
