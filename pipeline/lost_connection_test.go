package pipeline

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// A broker that cannot bind a queue in time closes the connection. No message is published on it.
func TestBindingThatFails(t *testing.T) {
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		var fails atomic.Bool
		var failed, publishing atomic.Int32 // connections
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.TopologyEvery = 20 * time.Millisecond
			c.Routes = []Route{{Queue: queue, Handler: handler(func(*message.Message) error { return nil })}}
			c.URL = b.RewriteSentByEach(t, func() func([]byte) []byte {
				publishes := false
				return func(frame []byte) []byte {
					switch publishes = publishes || rabbittest.IsMethod(frame, 60, 40); {
					case !fails.Load() || !rabbittest.IsMethod(frame, 50, 20):
					case publishes:
						publishing.Add(1)
					default:
						failed.Add(1)
						frame[len(frame)-1] = 0 // a frame without its end, for which the broker closes the connection
					}
					return frame
				}
			})
		})
		r.publish("", queue, amqp.Publishing{})
		r.wait(schemas.Handled)
		fails.Store(true)
		rabbittest.Eventually(t, "a binding to fail", func() bool { return failed.Load() > 0 || publishing.Load() > 0 })
		r.publish("", queue, amqp.Publishing{})
		r.waitFor(2, schemas.Handled)
		if n := publishing.Load(); n > 0 {
			t.Errorf("%d bindings on a connection that publishes", n)
		}
		fails.Store(false)
	})
}

// A pipeline ends although a consumer that begins waits for the connection that declares its queue.
func TestStopWithoutTheConnectionThatDeclares(t *testing.T) {
	b := rabbittest.Newest(t)
	queue, proxy := rabbittest.Name(t), b.NamedProxy(t)
	r := start(t, b, func(c *Config) {
		c.URL = proxy.URL
		c.Routes = []Route{{Queue: queue, Handler: handler(func(*message.Message) error { return nil })}}
	})
	proxy.Refuse("watership declaring")
	rabbittest.Eventually(t, "the loss", func() bool { return r.pipeline.connections.declaring.Err() != nil })
	proxy.Close("watership consuming")
	rabbittest.Eventually(t, "consumers wait for their queues", func() bool {
		return strings.Contains(stacks(), "pipeline.queueBuilder.BuildTopology") && r.pipeline.connections.consuming.Err() == nil
	})
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// A pipeline handles messages while the node of its URL is away, and others of the cluster are not.
func TestPipelineWithoutTheNodeOfItsURL(t *testing.T) {
	b := rabbittest.Newest(t)
	there, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	away := *there
	away.Host = "127.0.0.1:1"
	queue := rabbittest.Name(t)
	r := start(t, b, func(c *Config) {
		c.URL, c.Nodes = away.String(), []string{there.Host}
		c.Routes = []Route{{Queue: queue, Handler: handler(func(*message.Message) error { return nil })}}
	})
	r.publish("", queue, amqp.Publishing{})
	r.wait(schemas.Handled)
}

// A lost connection has one line of the log, whatever was in flight on it.
func TestLostConnectionIsLoggedOnce(t *testing.T) {
	b := rabbittest.Newest(t)
	const messages = 20
	queue, proxy := rabbittest.Name(t), b.Proxy(t)
	entered, over := make(chan struct{}, 2*messages), make(chan struct{})
	r := start(t, b, func(c *Config) {
		c.URL = proxy.URL
		c.Routes = []Route{{Queue: queue, Concurrency: messages, Handler: handler(func(msg *message.Message) error {
			entered <- struct{}{}
			select {
			case <-msg.Context().Done():
				return fmt.Errorf("calling the service: %w", msg.Context().Err())
			case <-over:
				return nil
			}
		})}}
	})
	for range messages {
		r.publish("", queue, amqp.Publishing{})
	}
	for range messages {
		rabbittest.Receive(t, entered)
	}
	proxy.Cut()
	rabbittest.Eventually(t, "the loss", func() bool { return r.log.Count("connection to the broker lost") > 0 })
	proxy.Mend()
	close(over)
	r.waitFor(messages, schemas.Handled)
	if n := r.log.Count("Handler returned error"); n > 0 {
		t.Errorf("%d lines", n)
	}
}
