package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// A message whose headers leave no room for Watership's cannot be tried again: it
// becomes poison, other messages go on, and its event and its parked copy have its body
// and headers.
func TestHeadersWithoutRoom(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Park: true, Handler: handler(func(msg *message.Message) error {
				if e, _ := schemas.FromContext(msg.Context()); !wire.DefaultFrameMax.LeavesRoom(e) {
					return errBroken
				}
				return nil
			})}}
		})
		full := amqp.Publishing{
			MessageId: "full", ContentType: "text/plain", Priority: 3, Body: []byte("the body"),
			Headers: amqp.Table{"filler": strings.Repeat("f", 125<<10), "n": int64(1), "nested": amqp.Table{"a": []any{true}}},
		}
		for i := range 10 {
			r.publish("", queue, amqp.Publishing{MessageId: fmt.Sprint("before ", i)})
		}
		r.publish("", queue, full)
		for i := range 10 {
			r.publish("", queue, amqp.Publishing{MessageId: fmt.Sprint("after ", i)})
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
		again, _, err := wire.Unwrap(schemas.FromDelivery(parked))
		if diff := cmp.Diff(want, again); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%.2000s", err, diff)
		}
		if n := r.log.Count("lost"); n != 0 {
			t.Errorf("a connection was lost:\n%s", r.log)
		}
		r.quiet()
	})
}

// A body that the broker takes, and does not take with the headers in front of it, is
// kept in a queue of its own. RabbitMQ 4.x takes 16 MiB by default
// (https://www.rabbitmq.com/docs/configure, max_message_size).
func TestBodyTooLargeWithItsHeaders(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		var calls atomic.Int32
		told := make(chan schemas.Event, 10)
		r := start(t, b, func(c *Config) {
			c.OnEvent = onPoison(func(_ context.Context, e schemas.Event) error { told <- e; return nil })
			c.Routes = []Route{{Queue: queue, Park: true, Handler: handler(func(*message.Message) error {
				calls.Add(1)
				return errBroken
			})}}
		})
		want := schemas.Envelope{
			RoutingKey: queue, Headers: amqp.Table{"filler": strings.Repeat("f", 120<<10)}, Body: make([]byte, 16<<20),
			Properties: schemas.Properties{MessageID: "large"},
		}
		r.publish("", queue, want.Publishing())
		poisoned := r.wait(schemas.Poisoned)
		if poisoned.Fingerprint != want.Fingerprint() || poisoned.Attempt != 1 || poisoned.Failure.Message != errBroken.Error() {
			t.Errorf("%+v", poisoned.State)
		}
		got := poisoned.Envelope
		hook := rabbittest.Receive(t, told)
		if len(got.Body) == 0 {
			kept, state, err := wire.Unwrap(schemas.FromDelivery(b.Take(t, r.topology.Unstorable(), 1)[0]))
			if err != nil || state.Fingerprint != poisoned.Fingerprint {
				t.Errorf("%+v %v", state, err)
			}
			got.Body = kept.Body
		}
		if !wire.DefaultFrameMax.LeavesRoom(got) && got.Fingerprint() != want.Fingerprint() ||
			hook.BodyIn != schemas.BodyHere || hook.BodySize != len(want.Body) || hook.Envelope.Fingerprint() != want.Fingerprint() {
			t.Errorf("kept another message: %d bytes of body, %d of headers", len(got.Body), wire.HeaderFrameSize(got.Publishing()))
		}
		parked, _, err := wire.Unwrap(schemas.FromDelivery(b.Take(t, queue+".poison", 1)[0]))
		if err != nil || parked.Properties.MessageID != "large" || len(parked.Headers) != 1 {
			t.Errorf("parked %+v %v", parked.Properties, err)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("the handler was called %d times", n)
		}
		r.quiet()
	})
}

// A broker with a smaller frame-max than RabbitMQ's default: messages are tried again
// with the headers that fit, and become poison if none fit.
func TestSmallFrames(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		var calls atomic.Int32
		r := start(t, b, func(c *Config) {
			c.URL = b.Rewrite(t, func(frame []byte) []byte { return rabbittest.SetFrameMax(frame, 16<<10) })
			c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(50*time.Millisecond, 50*time.Millisecond), Handler: handler(
				func(*message.Message) error { calls.Add(1); return fmt.Errorf("%s", strings.Repeat("long ", 1<<10)) })}}
		})
		for id, size := range map[string]int{"room": 1 << 10, "no room": 15_800} {
			r.publish("", queue, amqp.Publishing{
				MessageId: id, Body: []byte("x"), Headers: amqp.Table{"filler": strings.Repeat("f", size)},
			})
		}
		attempts := map[string]int{"room": 3, "no room": 1}
		for _, e := range r.waitFor(2, schemas.Poisoned) {
			if want := attempts[e.Envelope.Properties.MessageID]; e.Attempt != want || string(e.Envelope.Body) != "x" ||
				e.Envelope.Fingerprint() != e.Fingerprint {
				t.Errorf("%s: %d attempts instead of %d", e.Envelope.Properties.MessageID, e.Attempt, want)
			}
		}
		if n := calls.Load(); n != 4 {
			t.Errorf("the handler was called %d times", n)
		}
		r.quiet()
	})
}

// A message with headers of a newer Watership is not handled and delays no other
// message: it becomes poison with its headers. Where its headers name no queue, or
// another, or it came by another exchange, somebody copied them.
func TestMessagesOfANewerVersion(t *testing.T) {
	t.Parallel() // most of it is waiting
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
		headers := amqp.Table{"watership-v": int64(header.Version + 1), "watership-new": "?", "tenant": "acme"}
		r.publish("", queue, amqp.Publishing{Body: []byte("copied"), Headers: headers})
		named := maps.Clone(headers)
		named["watership-queue"] = queue
		for range many {
			r.publish(r.topology.Direct(), queue, amqp.Publishing{Body: []byte("newer"), Headers: named, Expiration: "600000"})
		}
		r.publish("", queue, amqp.Publishing{Body: []byte("ours")})
		if got := []string{rabbittest.Receive(t, handled), rabbittest.Receive(t, handled)}; !slices.Contains(got, "copied") || !slices.Contains(got, "ours") {
			t.Errorf("handled %q", got)
		}
		want := schemas.Envelope{
			Exchange: r.topology.Direct(), RoutingKey: queue, Headers: named, Body: []byte("newer"), Properties: schemas.Properties{Expiration: "600000"},
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
	t.Parallel() // most of it is waiting
	b := rabbittest.Newest(t)
	r := start(t, b, nil)
	queue := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
	const many = roleConcurrency + 1
	if err := b.Channel(t).QueueBind(queue, queue, r.topology.Direct(), false, nil); err != nil {
		t.Fatal(err)
	}
	for range many {
		r.publish(r.topology.Direct(), queue, amqp.Publishing{Headers: amqp.Table{
			"watership-v": int64(header.Version + 1), "watership-queue": queue,
		}})
	}
	r.publish("", queue, amqp.Publishing{Body: []byte("ours")})
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
