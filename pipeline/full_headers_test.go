package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// A message whose headers leave no room for ours cannot be tried again: it is
// given up with all that it is, what is around it goes on, and what is kept can be
// published as it was.
func TestHeadersWithoutRoom(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Park: true, Handler: handler(func(msg *message.Message) error {
				if e, _ := schemas.FromContext(msg.Context()); !e.LeavesRoom() {
					return errBroken
				}
				return nil
			})}}
		})
		full := amqp091.Publishing{
			MessageId: "full", ContentType: "text/plain", Priority: 3, Body: []byte("the body"),
			Headers: amqp091.Table{"filler": strings.Repeat("f", 125<<10), "n": int64(1), "nested": amqp091.Table{"a": []any{true}}},
		}
		for i := range 10 {
			r.publish("", queue, amqp091.Publishing{MessageId: fmt.Sprint("before ", i)})
		}
		r.publish("", queue, full)
		for i := range 10 {
			r.publish("", queue, amqp091.Publishing{MessageId: fmt.Sprint("after ", i)})
		}
		poisoned := r.wait(schemas.Poisoned)
		r.waitFor(20, schemas.Handled)
		want := schemas.Envelope{
			RoutingKey: queue, Headers: full.Headers, Body: full.Body,
			Properties: schemas.Properties{MessageID: "full", ContentType: "text/plain", Priority: 3},
		}
		if diff := cmp.Diff(want, poisoned.Envelope); diff != "" {
			t.Errorf("the event has another message (-want +got):\n%.2000s", diff)
		}
		if poisoned.Attempt != 1 || poisoned.Failure.Message != errBroken.Error() || poisoned.Fingerprint != want.Fingerprint() {
			t.Errorf("%+v", poisoned.State)
		}
		parked := b.Take(t, queue+".poison", 1)[0]
		if _, wrapped := parked.Headers["watership-wrapped"]; !wrapped {
			t.Error("it was parked without being wrapped")
		}
		again, _, err := schemas.Unwrap(schemas.FromDelivery(parked))
		if diff := cmp.Diff(want, again); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%.2000s", err, diff)
		}
		if n := r.log.Count("lost"); n != 0 {
			t.Errorf("a connection was lost:\n%s", r.log)
		}
		r.quiet()
	})
}

// What a newer Watership wrote is not guessed at and not handled: it stays in its
// queue, as it is, and comes again ever more slowly.
func TestMessageOfANewerVersionIsKept(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, nil)
		var handled atomic.Int32
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Handler: handler(func(msg *message.Message) error {
				if string(msg.Payload) == "newer" {
					handled.Add(1)
				}
				return nil
			})}}
		})
		newer := amqp091.Publishing{
			Body: []byte("newer"), Headers: amqp091.Table{"watership-v": int64(schemas.WireVersion + 1), "watership-new": "?"},
		}
		r.publish("", queue, newer)
		rabbittest.Eventually(t, "it came three times", func() bool { return r.log.Count("upgrade this one") >= 3 })
		r.publish("", queue, amqp091.Publishing{Body: []byte("ours")})
		r.wait(schemas.Handled)
		if times := r.log.Count("upgrade this one"); times > 20 {
			t.Errorf("it came %d times", times)
		}
		if err := errors.Join(r.stop()); err != nil {
			t.Fatal(err)
		}
		d := b.Take(t, queue, 1)[0]
		delete(d.Headers, "x-delivery-count")
		if diff := cmp.Diff(newer.Headers, d.Headers); diff != "" || string(d.Body) != "newer" || handled.Load() > 0 {
			t.Errorf("handled %d times (-want +got):\n%s", handled.Load(), diff)
		}
	})
}
