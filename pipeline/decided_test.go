package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// The event of a cancelled message has its body, though the exchange is tapped: the copy may
// have been dropped, or its retention may be over.
func TestCancelledMessageKeepsItsBody(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		b = b.VHost(t)
		exchange := topicExchange(t, b)
		r := start(t, b, func(c *Config) {
			c.QueueType = Quorum
			c.Tap = []Tap{{Exchange: exchange, Type: "topic"}}
			c.Routes = []Route{{
				Queue: rabbittest.Name(t), Bind: []Binding{{exchange, "#"}}, Policy: attemptsAfter(time.Hour),
				Handler: handler(func(*message.Message) error { return errors.New("no") }),
			}}
			c.Decisions = func(context.Context, schemas.State) (OperatorDecision, bool, error) {
				return OperatorDecision{EventID: "decided", Cancel: true, Operator: "ann", Reason: "a test order"}, true, nil
			}
		})
		r.publish(exchange, "order", amqp.Publishing{MessageId: "1", Body: []byte("the only body")})
		delay := wire.DelaysOf(r.topology).Queue(time.Hour)
		rabbittest.Eventually(t, "the message waits", func() bool {
			d, there, err := r.admin.Get(delay, false)
			if err != nil {
				t.Fatal(err)
			}
			return there && d.Reject(false) == nil // as `waiting cancel` takes it
		})
		e := r.wait(schemas.Discarded)
		if string(e.Envelope.Body) != "the only body" || e.Envelope.Properties.MessageID != "1" {
			t.Errorf("the body is %q of message %s", e.Envelope.Body, e.Envelope.Properties.MessageID)
		}
	})
}

// The next message of a key goes at once when the earlier one is cancelled: it does not come any more.
func TestCancelledMessageLeavesItsPlace(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.QueueType = Quorum
			c.Routes = []Route{{
				Queue: queue, Policy: attemptsAfter(time.Hour), Fairness: Fairness{Key: func(schemas.Envelope) string { return "key" }, Ordered: true},
				Handler: handler(func(msg *message.Message) error {
					if string(msg.Payload) == "first" {
						return errors.New("no")
					}
					return nil
				}),
			}}
			c.Decisions = func(context.Context, schemas.State) (OperatorDecision, bool, error) {
				return OperatorDecision{EventID: "decided", Cancel: true, Operator: "ann", Reason: "a test order"}, true, nil
			}
		})
		r.publish("", queue, amqp.Publishing{MessageId: "1", Body: []byte("first")})
		r.wait(schemas.RetryScheduled)
		r.publish("", queue, amqp.Publishing{MessageId: "2", Body: []byte("second")})
		delay := wire.DelaysOf(r.topology).Queue(time.Hour)
		rabbittest.Eventually(t, "the first message waits", func() bool {
			d, there, err := r.admin.Get(delay, false)
			if err != nil {
				t.Fatal(err)
			}
			return there && d.Reject(false) == nil // as `waiting cancel` takes it
		})
		r.wait(schemas.Discarded)
		if e := r.wait(schemas.Handled); e.Envelope.Properties.MessageID != "2" {
			t.Errorf("handled: %+v", e)
		}
	})
}

// The place of a postponed message has its new time, so that the next ones of its key wait until then.
func TestPostponedMessageKeepsItsPlace(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const wait = 5 * time.Hour
		queue, notBefore := rabbittest.Name(t), time.Now().Add(wait).UTC()
		r := start(t, b, func(c *Config) {
			c.QueueType = Quorum
			c.Routes = []Route{{
				Queue: queue, Policy: attemptsAfter(time.Hour, retry.Step(wait)), Fairness: Fairness{Key: func(schemas.Envelope) string { return "key" }, Ordered: true},
				Handler: handler(func(*message.Message) error { return errors.New("no") }),
			}}
			c.Decisions = func(context.Context, schemas.State) (OperatorDecision, bool, error) {
				return OperatorDecision{EventID: "decided", NotBefore: notBefore, Operator: "ann", Reason: "maintenance"}, true, nil
			}
		})
		r.publish("", queue, amqp.Publishing{MessageId: "1"})
		r.wait(schemas.RetryScheduled)
		rabbittest.Eventually(t, "the message waits", func() bool {
			d, there, err := r.admin.Get(wire.DelaysOf(r.topology).Queue(time.Hour), false)
			if err != nil {
				t.Fatal(err)
			}
			return there && d.Reject(false) == nil // as `waiting postpone` takes it
		})
		r.wait(schemas.Rescheduled)
		rabbittest.Eventually(t, "the message waits again", func() bool { return b.Len(t, wire.DelaysOf(r.topology).Queue(retry.Step(wait))) == 1 })
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		var due []time.Time
		places := r.topology.Places(queue)
		rabbittest.Eventually(t, "the places have returned", func() bool { return b.Len(t, places) > 0 })
		for _, d := range b.Take(t, places, b.Len(t, places)) {
			var place struct{ Due time.Time }
			if err := json.Unmarshal(d.Body, &place); err != nil {
				t.Error(err)
			}
			due = append(due, place.Due)
		}
		if !slices.ContainsFunc(due, notBefore.Equal) {
			t.Errorf("the places have the times %v", due)
		}
	})
}
