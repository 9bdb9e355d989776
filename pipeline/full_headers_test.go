package pipeline

import (
	"fmt"
	"maps"
	"strings"
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

// What a newer Watership wrote for a queue is not guessed at, not handled, and holds
// up nobody: it is given up with its headers. Where its headers name no queue, or
// another, somebody copied them.
func TestMessagesOfANewerVersion(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const many = defaultConcurrency + 1
		queue := b.Queue(t, nil)
		handled := make(chan string, 10)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Handler: handler(func(msg *message.Message) error {
				handled <- string(msg.Payload)
				return nil
			})}}
		})
		headers := amqp091.Table{"watership-v": int64(schemas.WireVersion + 1), "watership-new": "?", "tenant": "acme"}
		r.publish("", queue, amqp091.Publishing{Body: []byte("copied"), Headers: headers})
		named := maps.Clone(headers)
		named["watership-queue"] = queue
		for range many {
			r.publish("", queue, amqp091.Publishing{Body: []byte("newer"), Headers: named, Expiration: "600000"})
		}
		r.publish("", queue, amqp091.Publishing{Body: []byte("ours")})
		if first, second := rabbittest.Receive(t, handled), rabbittest.Receive(t, handled); first != "copied" || second != "ours" {
			t.Errorf("handled %q and %q", first, second)
		}
		want := schemas.Envelope{
			RoutingKey: queue, Headers: named, Body: []byte("newer"), Properties: schemas.Properties{Expiration: "600000"},
		}
		for _, e := range r.waitFor(many, schemas.Poisoned) {
			if diff := cmp.Diff(want, e.Envelope); diff != "" || !strings.Contains(e.Failure.Message, "upgrade this one") {
				t.Fatalf("%s (-want +got):\n%s", e.Failure.Message, diff)
			}
		}
		r.quiet()
	})
}

// The same among dead letters, which others wait behind too.
func TestDeadLettersOfANewerVersion(t *testing.T) {
	b := rabbittest.Newest(t)
	r := start(t, b, nil)
	queue := b.Queue(t, amqp091.Table{"x-dead-letter-exchange": r.topology.Retry()})
	const many = hopConcurrency + 1
	for range many {
		r.publish("", queue, amqp091.Publishing{Headers: amqp091.Table{
			"watership-v": int64(schemas.WireVersion + 1), "watership-queue": queue,
		}})
	}
	r.publish("", queue, amqp091.Publishing{Body: []byte("ours")})
	deliveries, err := b.Channel(t).Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range many + 1 {
		if err := rabbittest.Receive(t, deliveries).Reject(false); err != nil {
			t.Fatal(err)
		}
	}
	if e := r.wait(schemas.RetryScheduled); string(e.Envelope.Body) != "ours" {
		t.Errorf("%+v", e)
	}
	r.waitFor(many, schemas.Poisoned)
}
