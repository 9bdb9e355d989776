package pipeline

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// A pipeline ends while the broker is unreachable, whatever it was doing when the connections
// were lost, such as declaring a queue for its consumer.
func TestStopWithoutABroker(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, b rabbittest.Broker) {
		proxy := b.Proxy(t)
		r := startSilent(t, b, func(c *Config) {
			c.URL, c.StopTimeout = proxy.URL, 100*time.Millisecond
			c.Routes = []Route{{Queue: rabbittest.Name(t), Handler: handler(func(*message.Message) error { return nil })}}
		})
		for n := range 8 {
			time.Sleep(time.Duration(n) * 7 * time.Millisecond) // a different moment each time
			proxy.Cut()
			_ = r.stop() // fails the test where it does not end
			proxy.Mend()
			r.run()
		}
	})
}
