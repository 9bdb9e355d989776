package pipeline

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A body that the check of a route refuses reaches no handler, and the failure of a consumer
// in another program is not retried, whether it rejects the message or reports.
func TestCheckOfARoute(t *testing.T) {
	b := rabbittest.Embedded(t)
	handled, rejected, reports := rabbittest.Name(t)+"-a", rabbittest.Name(t)+"-b", rabbittest.Name(t)+"-c"
	check := func(body []byte) error {
		if string(body) == "panic" {
			panic("out of order")
		}
		if string(body) != "good" {
			return retry.Permanent(retry.Class("schema", errors.New("expected a good body")))
		}
		return nil
	}
	r := start(t, b, func(c *Config) {
		c.Default = attemptsAfter(time.Millisecond)
		c.Routes = []Route{
			{Queue: handled, Check: check, Handler: handler(func(msg *message.Message) error {
				if string(msg.Payload) != "good" {
					t.Errorf("the handler got %q", msg.Payload)
				}
				return nil
			})},
			{Queue: rejected, Check: check},
			{Queue: reports, Check: check},
		}
	})
	declareFor(t, b, rejected, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
	declareFor(t, b, reports, nil)
	rejecting(t, b, rejected)
	reporting(t, b, r.topology, reports, func(amqp.Delivery) amqp.Table { return amqp.Table{"outcome": "unavailable"} })
	for _, queue := range []string{handled, rejected, reports} {
		r.publish("", queue, amqp.Publishing{Body: []byte("bad")})
	}
	for _, e := range r.waitFor(3, schemas.Poisoned) {
		if e.Attempt != 1 || e.Failure.Class != "schema" || e.Failure.Message != "expected a good body" {
			t.Errorf("%s: attempt %d, %+v", e.Queue, e.Attempt, e.Failure)
		}
	}
	r.publish("", handled, amqp.Publishing{Body: []byte("good")})
	r.wait(schemas.Handled)
	r.publish("", rejected, amqp.Publishing{Body: []byte("good")})
	r.publish("", rejected, amqp.Publishing{Body: []byte("panic")})
	for _, e := range r.waitFor(5, schemas.Poisoned)[3:] {
		if e.Attempt != 2 || e.Failure.Class == "schema" {
			t.Errorf("%s: attempt %d, %+v", e.Envelope.Body, e.Attempt, e.Failure)
		}
	}
	if retried := len(r.all(ofQueue(rejected, schemas.RetryScheduled))); retried != 2 {
		t.Errorf("%d retries", retried)
	}
	route := Route{Check: check, Handler: handler(func(*message.Message) error { return nil })}
	if _, err := route.Call(t.Context(), schemas.Envelope{Body: []byte("bad")}); retry.ClassOf(err) != "schema" {
		t.Error(fmt.Errorf("called: %w", err))
	}
}
