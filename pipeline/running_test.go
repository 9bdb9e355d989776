package pipeline

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// hanging is a route whose handler does not return from the message hang until
// released, and a pipeline whose connections can be cut, as RabbitMQ ends the channel of
// a message that is not acknowledged within its consumer_timeout.
func hanging(t *testing.T, b rabbittest.Broker, timeout time.Duration) (r *rig, queue string, cut func(), calls *atomic.Int32, release chan struct{}) {
	queue, calls, release = rabbittest.Name(t), &atomic.Int32{}, make(chan struct{})
	proxy := b.Proxy(t)
	r = start(t, b, func(c *Config) {
		c.URL = proxy.URL
		c.Routes = []Route{{Queue: queue, Concurrency: 2, Timeout: timeout, Handler: handler(func(msg *message.Message) error {
			if string(msg.Payload) == "hang" {
				calls.Add(1)
				<-release
			}
			return nil
		})}}
	})
	cut = func() {
		proxy.Cut()
		proxy.Mend()
	}
	return r, queue, cut, calls, release
}

// A handler that hangs keeps one place, however often its message is delivered again.
// The message waits for it without losing an attempt.
func TestMessageOfAHandlerThatHangsIsDeliveredAgain(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r, queue, cut, calls, release := hanging(t, b, 0)
		r.publish("", queue, amqp.Publishing{Body: []byte("hang")})
		rabbittest.Eventually(t, "the handler hangs", func() bool { return calls.Load() == 1 })
		cut()
		e := r.wait(schemas.RetryScheduled)
		if e.Attempt != 0 || e.Waits != 1 || !strings.Contains(e.Failure.Message, "has not returned") {
			t.Errorf("%+v", e.State)
		}
		r.publish("", queue, amqp.Publishing{Body: []byte("good")})
		if e := r.wait(schemas.Handled); string(e.Envelope.Body) != "good" {
			t.Errorf("handled %q", e.Envelope.Body)
		}
		r.waitFor(2, schemas.RetryScheduled)
		if n := calls.Load(); n != 1 {
			t.Errorf("the handler was called %d times", n)
		}
		close(release)
		e = r.waitFor(2, schemas.Handled)[1]
		if e.Attempt != 1 || string(e.Envelope.Body) != "hang" {
			t.Errorf("%+v", e.State)
		}
	})
}

// Where the time-out of the route has passed, each delivery is an attempt that failed.
func TestHandlerThatHangsBeyondItsTimeoutEndsInPoison(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r, queue, cut, calls, release := hanging(t, b, 50*time.Millisecond)
		r.publish("", queue, amqp.Publishing{Body: []byte("hang")})
		rabbittest.Eventually(t, "the hang is reported", func() bool { return r.log.Count("did not return at its time-out") == 1 })
		cut()
		e := r.wait(schemas.Poisoned)
		if e.Attempt != 2 || !strings.Contains(e.Failure.Message, "has not returned") {
			t.Errorf("%+v", e.State)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("the handler was called %d times", n)
		}
		close(release)
	})
}
