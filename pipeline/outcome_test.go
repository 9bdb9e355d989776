package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

var errBroken = errors.New("broken")

// Every kind of error in one pipeline, each at a message of its own.
func TestOutcomes(t *testing.T) {
	var nacks atomic.Int32
	cases := map[string]struct {
		fail func(msg *message.Message) error
		want string // the life: action and attempt of each event
		why  schemas.Failure
	}{
		"success": {
			func(*message.Message) error { return nil },
			"handled 1",
			schemas.Failure{},
		},
		"failure once": {
			func(msg *message.Message) error { return onAttempt(msg, 1, errBroken) },
			"retry_scheduled 1, handled 2",
			schemas.Failure{},
		},
		"failure": {
			func(*message.Message) error { return fmt.Errorf("saving: %w", errBroken) },
			"retry_scheduled 1, retry_scheduled 2, poisoned 3",
			schemas.Failure{Message: "saving: broken", Type: "*errors.errorString", Class: "default"},
		},
		"permanent": {
			func(*message.Message) error { return retry.Permanent(errBroken) },
			"poisoned 1",
			schemas.Failure{Message: "broken", Type: "*errors.errorString", Class: "default"},
		},
		"after a delay": {
			func(msg *message.Message) error {
				return onAttempt(msg, 1, retry.After(300*time.Millisecond, errBroken))
			},
			"retry_scheduled 1, handled 2",
			schemas.Failure{},
		},
		"class": {
			func(*message.Message) error { return retry.Class("once", errBroken) },
			"retry_scheduled 1, poisoned 2",
			schemas.Failure{Message: "broken", Type: "*errors.errorString", Class: "once"},
		},
		"group": {
			func(*message.Message) error { return retry.Permanent(retry.Group("sold out", errBroken)) },
			"poisoned 1",
			schemas.Failure{Message: "broken", Type: "*errors.errorString", Class: "default", Group: "sold out"},
		},
		"traceback": {
			func(*message.Message) error {
				trace := strings.Repeat("  File \"shop.py\", line 17, in pay\n", 100)
				return retry.Permanent(errors.New("Traceback (most recent call last):\n" + trace + "ValueError: card 17 is expired"))
			},
			"poisoned 1",
			schemas.Failure{Message: "Traceback (most recent call last):\n" + strings.Repeat("  File \"shop.py\", line 17, in pay\n", 100), Type: "*errors.errorString", Class: "default", Group: "ValueError: card # is expired"},
		},
		"time-out": {
			func(msg *message.Message) error { <-msg.Context().Done(); return retry.Permanent(msg.Context().Err()) },
			"poisoned 1",
			schemas.Failure{Message: "context deadline exceeded", Type: "timeout", Class: "default"},
		},
		"nack": {
			func(msg *message.Message) error {
				if nacks.Add(1)%2 == 1 { // once for each broker
					msg.Nack()
				}
				return nil
			},
			"retry_scheduled 0, handled 1",
			schemas.Failure{},
		},
		"own acknowledgement": {
			func(msg *message.Message) error { msg.Ack(); return onAttempt(msg, 1, errBroken) },
			"retry_scheduled 1, handled 2",
			schemas.Failure{},
		},
	}
	eachSetting(t, func(t *testing.T, b setting) {
		rabbittest.NoLeaks(t)
		queue := rabbittest.Name(t)
		r := b.start(t, func(c *Config) {
			c.Routes = []Route{{
				Queue: queue, Timeout: 500 * time.Millisecond,
				Policy: &retry.Policy{
					Delays:  []time.Duration{100 * time.Millisecond, 200 * time.Millisecond},
					Classes: map[string]retry.Policy{"once": {Delays: []time.Duration{50 * time.Millisecond}}},
				},
				Handler: handler(func(msg *message.Message) error { return cases[string(msg.Payload)].fail(msg) }),
			}}
		})
		for name := range cases {
			r.publish("", queue, amqp.Publishing{Body: []byte(name), MessageId: name})
		}
		r.waitFor(5, schemas.Handled)
		r.waitFor(6, schemas.Poisoned)
		for name, test := range cases {
			life := r.all(func(e event) bool { return e.Envelope.Properties.MessageID == name })
			if got := spellLife(life); got != test.want {
				t.Errorf("%s: got %s, want %s", name, got, test.want)
			}
			if len(test.why.Message) > 1<<10 { // which is shortened
				test.why.Message = life[len(life)-1].Failure.Message
			}
			if got := life[len(life)-1].Failure; got != test.why {
				t.Errorf("%s: got %+v, want %+v", name, got, test.why)
			}
		}
		r.quiet()
	})
}

func onAttempt(msg *message.Message, n int, err error) error {
	if retry.AttemptFrom(msg.Context()).Number == n {
		return err
	}
	return nil
}

func spellLife(life []event) string {
	var steps []string
	for _, e := range life {
		steps = append(steps, fmt.Sprintf("%s %d", e.Action, e.Attempt))
	}
	return strings.Join(steps, ", ")
}

// A panic is a failure with its stack, and the stack is bounded.
func TestPanicIsAFailure(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(), Handler: handler(func(*message.Message) error {
				deep(200)
				return nil
			})}}
		})
		r.publish("", queue, amqp.Publishing{Body: []byte("x")})
		why := r.wait(schemas.Poisoned).Failure
		if why.Message != "panic: deep down" || why.Type != "*retry.PanicError" {
			t.Errorf("%+v", why)
		}
		if !strings.Contains(why.Stack, "pipeline.deep") || len(why.Stack) > 8<<10 || len(why.Stack) < 4<<10 {
			t.Errorf("stack of %d bytes:\n%s", len(why.Stack), why.Stack)
		}
	})
}

func deep(n int) {
	if n == 0 {
		panic("deep down")
	}
	deep(n - 1)
}

// The error, the class and the time of every attempt are in the poisoned event,
// with the whole message as first published.
func TestPoisonedEventSaysEverything(t *testing.T) {
	eachSetting(t, func(t *testing.T, b setting) {
		queue, exchange := rabbittest.Name(t), topicExchange(t, b.Broker)
		r := b.start(t, func(c *Config) {
			c.Routes = []Route{{
				Queue: queue, Bind: []Binding{{exchange, "order.*"}},
				Policy:  attemptsAfter(50*time.Millisecond, 50*time.Millisecond),
				Handler: handler(func(*message.Message) error { return retry.Class("ordering", errBroken) }),
			}}
		})
		sent := amqp.Publishing{
			Headers:     amqp.Table{"tenant": "acme", "n": int32(7), "list": []any{"a", int64(1)}},
			ContentType: "application/json", MessageId: "m1", CorrelationId: "c1", ReplyTo: "r", Type: "order", AppId: "shop",
			Priority: 3, Expiration: "600000", Timestamp: time.Unix(1700000000, 0), Body: []byte(`{"total":1}`),
		}
		began := time.Now().Truncate(time.Millisecond)
		r.publish(exchange, "order.paid", sent)
		e := r.wait(schemas.Poisoned)
		want := schemas.FromDelivery(amqp.Delivery{
			Exchange: exchange, RoutingKey: "order.paid", Headers: sent.Headers, Body: sent.Body,
			ContentType: sent.ContentType, MessageId: sent.MessageId, CorrelationId: sent.CorrelationId, ReplyTo: sent.ReplyTo,
			Type: sent.Type, AppId: sent.AppId, Priority: 3, Expiration: sent.Expiration, Timestamp: sent.Timestamp,
		})
		if got := e.Envelope; got.Fingerprint() != want.Fingerprint() || got.Properties != want.Properties {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if e.Fingerprint != want.Fingerprint() || e.Message == "" || e.EventID == "" || e.Queue != queue || e.Attempt != 3 {
			t.Errorf("%+v", e.State)
		}
		if len(e.Attempts) != 3 {
			t.Fatalf("%d attempts in the history", len(e.Attempts))
		}
		for i, a := range e.Attempts {
			if a.Class != "ordering" || a.Time.Before(began) || i > 0 && a.Time.Sub(e.Attempts[i-1].Time) < 50*time.Millisecond {
				t.Errorf("attempt %d: %+v after %+v", i+1, a, e.Attempts)
			}
		}
	})
}

// The result of a message cannot be recorded, since a right is missing: the message is
// heldMessage and shown, and its handler is not called again.
func TestOutcomeThatCannotBeRecorded(t *testing.T) {
	t.Parallel() // a message is held for seconds before that is a problem
	rabbittest.NewestOrEachServer(t, func(t *testing.T, b rabbittest.Broker) {
		queue, registry := rabbittest.Name(t), prometheus.NewPedanticRegistry()
		all := rabbittest.Rights{Configure: ".*", Write: ".*", Read: ".*"}
		as := b.Login(t, rabbittest.Rights{Configure: ".*", Write: `^(?!.*\.events$)`, Read: ".*"})
		var calls atomic.Int32
		r := start(t, b, func(c *Config) {
			c.URL, c.Registerer = as.URL, registry
			c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(), Handler: handler(func(*message.Message) error {
				calls.Add(1)
				return nil
			})}}
		})
		r.publish("", queue, amqp.Publishing{Body: []byte("x")})
		rabbittest.Eventually(t, "the message is held", func() bool {
			return gathered(t, registry)["watership_held_messages "+queue] == 1
		})
		rabbittest.Eventually(t, "the pipeline says so", func() bool { return r.pipeline.Held() != nil })
		if text := r.pipeline.Held().Error(); !strings.Contains(text, "cannot be recorded: 1,") || !strings.Contains(text, "ACCESS_REFUSED") {
			t.Error(text)
		}
		b.Grant(t, as, all)
		r.wait(schemas.Handled)
		rabbittest.Eventually(t, "nothing is held any more", func() bool { return r.pipeline.Held() == nil })
		if n := calls.Load(); n != 1 {
			t.Errorf("the handler was called %d times", n)
		}
	})
}

// A handler that does not return at its time-out is reported once, and the end
// of the pipeline does not wait for it for ever.
func TestHangingHandler(t *testing.T) {
	t.Parallel() // it waits for retries after seconds
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		queue := rabbittest.Name(t)
		hung, release := make(chan retry.Attempt, 10), make(chan struct{})
		entered := make(chan context.Context, 1)
		r := start(t, b, func(c *Config) {
			c.StopTimeout = 200 * time.Millisecond
			c.OnHang = func(a retry.Attempt) { hung <- a }
			c.Routes = []Route{{Queue: queue, Timeout: 50 * time.Millisecond, Handler: handler(func(msg *message.Message) error {
				entered <- msg.Context()
				<-release
				return nil
			})}}
		})
		t.Cleanup(func() { close(release) }) // before the pipeline is stopped
		r.publish("", queue, amqp.Publishing{Body: []byte("x")})
		rabbittest.Receive(t, entered)
		if a := rabbittest.Receive(t, hung); a.Number != 1 || a.Queue != queue || a.Fingerprint == "" {
			t.Errorf("%+v", a)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- r.stop() }()
		if err := rabbittest.Receive(t, stopped); err != nil {
			t.Error(err)
		}
		if n := r.log.Count("a handler did not return at its time-out"); n != 1 || len(hung) > 0 {
			t.Errorf("reported %d times", n+len(hung))
		}
		rabbittest.Eventually(t, "its message is in the queue", func() bool { return b.Len(t, queue) == 1 })
	})
}
