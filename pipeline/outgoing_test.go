package pipeline

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/handler/outgoing"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A handler publishes to an exchange and key of its choice, with its properties
// and headers; the ids that it does not set relate the message to its parent.
func TestOutgoingMessages(t *testing.T) {
	t.Parallel() // most of it is waiting
	eachSetting(t, func(t *testing.T, b setting) {
		queue, out, plain := rabbittest.Name(t), b.Queue(t, nil), b.Queue(t, nil)
		exchange := topicExchange(t, b.Broker)
		if err := b.Channel(t).QueueBind(out, "invoice.*", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		r := b.start(t, func(c *Config) {
			c.Routes = []Route{{
				Queue: queue, Publish: Binding{Key: plain},
				Handler: func(msg *message.Message) ([]*message.Message, error) {
					simple := message.NewMessage(watermill.NewUUID(), []byte("plain"))
					simple.Metadata.Set("tenant", "acme")
					return []*message.Message{NewMessage(schemas.Envelope{
						Exchange: exchange, RoutingKey: "invoice.made", Body: []byte("chosen"),
						Headers: amqp.Table{"n": int32(7), HeaderCausation: "mine"},
						Properties: schemas.Properties{
							MessageID: "own", CorrelationID: "own too", Type: "invoice", DeliveryMode: amqp.Transient,
						},
					}), simple}, onAttempt(msg, 1, errBroken)
				},
			}}
		})
		r.publish("", queue, amqp.Publishing{MessageId: "parent", Body: []byte("x")})
		chosen, simple := b.Take(t, out, 1)[0], b.Take(t, plain, 1)[0]
		if chosen.RoutingKey != "invoice.made" || chosen.MessageId != "own" || chosen.CorrelationId != "own too" ||
			chosen.Type != "invoice" || chosen.Headers["n"] != int32(7) || chosen.Headers[HeaderCausation] != "mine" ||
			chosen.DeliveryMode != amqp.Transient || len(chosen.Headers) != 2 {
			t.Errorf("%+v", chosen)
		}
		if simple.MessageId == "" || simple.CorrelationId != "parent" || simple.Headers[HeaderCausation] != "parent" ||
			simple.Headers["tenant"] != "acme" || simple.DeliveryMode != amqp.Persistent || len(simple.Headers) != 2 {
			t.Errorf("%+v", simple)
		}
		r.wait(schemas.Handled)
	})
}

// An outgoing message belongs to the parent's correlation where it has one, and
// names a parent without an id by its fingerprint.
func TestRelation(t *testing.T) {
	parent := wire.VerifiedState{State: schemas.State{Fingerprint: "v1:f"}}
	parent.Envelope.Properties.CorrelationID = "c"
	parent.Envelope.Headers = amqp.Table{HeaderCausation: "grandparent"}
	copied := schemas.Envelope{Headers: amqp.Table{HeaderCausation: "grandparent"}}
	outgoing.SetCorrelation(&copied, parent, HeaderCausation)
	if copied.Properties.CorrelationID != "c" || copied.Headers[HeaderCausation] != "v1:f" {
		t.Errorf("%+v", copied)
	}
	parent.Envelope.Properties.MessageID = "p"
	e := schemas.Envelope{Headers: amqp.Table{}}
	outgoing.SetCorrelation(&e, parent, HeaderCausation)
	if e.Properties.CorrelationID != "c" || e.Headers[HeaderCausation] != "p" {
		t.Errorf("%+v", e)
	}
}

// The id of an outgoing message tells a repeat from another message.
func TestDerivedID(t *testing.T) {
	b := completion("q", Binding{}, watermill.NewULID)
	parent := func(id, replay string) wire.VerifiedState {
		return wire.VerifiedState{
			Envelope: schemas.Envelope{Properties: schemas.Properties{MessageID: id}},
			State:    schemas.State{Fingerprint: "v1:" + id, Replay: replay},
		}
	}
	id := b.DerivedID(parent("a", ""), 0)
	if again := b.DerivedID(parent("a", ""), 0); again != id {
		t.Errorf("the repeat has id %s, not %s", again, id)
	}
	other := completion("r", Binding{}, watermill.NewULID)
	for what, another := range map[string]string{
		"ordinal": b.DerivedID(parent("a", ""), 1), "parent": b.DerivedID(parent("b", ""), 0),
		"replay": b.DerivedID(parent("a", "job"), 0), "queue": other.DerivedID(parent("a", ""), 0),
	} {
		if another == id {
			t.Errorf("another %s, the same id", what)
		}
	}
	anonymous := b.DerivedID(parent("", ""), 0)
	if again := b.DerivedID(parent("", ""), 0); again == anonymous {
		t.Error("children of anonymous messages have one id")
	}
}

// Services copy headers from consumed to published messages. The published message
// is another one: it starts at attempt 1, with its own origin.
func TestCopiedHeadersAreNotTrusted(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		source, target := rabbittest.Name(t), rabbittest.Name(t)
		type seen struct {
			attempt  retry.Attempt
			envelope schemas.Envelope
			metadata message.Metadata
		}
		arrivals := make(chan seen, 10)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{
				{Queue: source, Publish: Binding{Key: target}, Handler: func(msg *message.Message) ([]*message.Message, error) {
					e, _ := schemas.FromContext(msg.Context())
					e.RoutingKey, e.Properties.MessageID, e.Body = target, "", []byte("by envelope")
					byMetadata := message.NewMessage("", []byte("by metadata"))
					byMetadata.Metadata = msg.Metadata
					return []*message.Message{NewMessage(e), byMetadata}, onAttempt(msg, 1, errBroken)
				}},
				{Queue: target, Policy: attemptsAfter(), Handler: handler(func(msg *message.Message) error {
					e, _ := schemas.FromContext(msg.Context())
					arrivals <- seen{retry.AttemptFrom(msg.Context()), e, msg.Metadata}
					return errBroken
				})},
			}
		})
		r.publish("", source, amqp.Publishing{MessageId: "parent", Headers: amqp.Table{"tenant": "acme", "n": int64(5)}})
		for range 2 {
			got := rabbittest.Receive(t, arrivals)
			if got.attempt.Number != 1 || got.envelope.RoutingKey != target || got.envelope.Headers["n"] != int64(5) {
				t.Errorf("%s: %+v", got.envelope.Body, got)
			}
			for name := range got.envelope.Headers {
				if strings.HasPrefix(name, "watership-") {
					t.Errorf("%s: header %s", got.envelope.Body, name)
				}
			}
		}
		for _, e := range r.waitFor(2, schemas.Poisoned) {
			if e.Queue != target || e.Attempt != 1 || e.Envelope.RoutingKey != target || e.Envelope.Properties.MessageID == "parent" {
				t.Errorf("%+v", e)
			}
		}
		foreignCopy(t, r, arrivals, target)
	})
}

// foreignCopy: a consumer in another language copies the headers as they are on
// the wire, ours and the broker's included.
func foreignCopy[T any](t *testing.T, r *rig, arrivals <-chan T, target string) {
	foreign := r.broker.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
	publishTo(t, r.broker, foreign, "original")
	rejectOne(t, r.broker, foreign)
	d := r.broker.Take(t, foreign, 1)[0]
	if d.Headers["watership-attempt"] == nil {
		t.Fatalf("the second attempt has no state: %+v", d.Headers)
	}
	r.publish("", target, amqp.Publishing{Headers: d.Headers, Body: d.Body, MessageId: "foreign copy"})
	rabbittest.Receive(t, arrivals)
	e := r.waitFor(3, schemas.Poisoned)[2]
	if e.Queue != target || e.Attempt != 1 || e.Envelope.RoutingKey != target || e.Envelope.Properties.MessageID != "foreign copy" {
		t.Errorf("%+v", e)
	}
}

// An outgoing message that reaches no queue is a failure of the attempt, and
// one that a full queue refuses makes the message wait.
func TestUndeliverableOutgoing(t *testing.T) {
	t.Parallel() // it waits for retries after seconds
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		queue := rabbittest.Name(t)
		full := b.Queue(t, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
		publishTo(t, b, full, "in the way")
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(50 * time.Millisecond), Handler: func(msg *message.Message) ([]*message.Message, error) {
				return []*message.Message{NewMessage(schemas.Envelope{RoutingKey: string(msg.Payload)})}, nil
			}}}
		})
		r.publish("", queue, amqp.Publishing{Body: []byte("test.nowhere")})
		if e := r.wait(schemas.Poisoned); e.Attempt != 2 || !strings.Contains(e.Failure.Message, `queue "test.nowhere" does not exist`) {
			t.Errorf("%+v", e.State)
		}
		r.publish("", queue, amqp.Publishing{Body: []byte(full)})
		rabbittest.Eventually(t, "it waits", func() bool {
			return len(r.all(func(e event) bool { return e.Action == schemas.RetryScheduled && e.Waits > 0 && e.Attempt == 0 })) > 0
		})
		b.Take(t, full, 1)
		if e := r.wait(schemas.Handled); e.Attempt != 1 {
			t.Errorf("%+v", e.State)
		}
	})
}

// The confirms of an outgoing message are lost, then the connection: the message
// has not been acknowledged, it is handled again, and the repeat has the same id.
func TestOutgoingIsConfirmedBeforeTheAck(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		proxy := b.Proxy(t)
		queue, out := b.Queue(t, nil), b.Queue(t, nil)
		var calls atomic.Int32
		r := start(t, b, func(c *Config) {
			c.URL = proxy.URL
			c.Routes = []Route{{Queue: queue, Handler: func(*message.Message) ([]*message.Message, error) {
				if calls.Add(1) == 1 {
					proxy.Add(`{"name":"deaf","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
				}
				return []*message.Message{NewMessage(schemas.Envelope{RoutingKey: out})}, nil
			}}}
		})
		r.publish("", queue, amqp.Publishing{MessageId: "parent"})
		rabbittest.Eventually(t, "the outgoing message is there", func() bool { return b.Len(t, out) == 1 })
		if n := len(r.all(func(e event) bool { return e.Action == schemas.Handled })); n > 0 {
			t.Error("handled before the outgoing message was confirmed")
		}
		proxy.Cut()
		rabbittest.Eventually(t, "the message goes back", func() bool { return b.Len(t, queue) == 1 })
		proxy.Remove("deaf")
		proxy.Mend()
		r.wait(schemas.Handled)
		taken := b.Take(t, out, 2)
		if taken[0].MessageId != taken[1].MessageId || taken[0].MessageId == "" {
			t.Errorf("ids %q and %q", taken[0].MessageId, taken[1].MessageId)
		}
		rabbittest.Eventually(t, "the message is acknowledged", func() bool {
			return errors.Is(r.stop(), nil) && b.Len(t, queue) == 0
		})
	})
}

// A handler that changes its message does not change the message that is tried again.
func TestHandlerMayChangeItsCopy(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := rabbittest.Name(t)
	r := start(t, b, func(c *Config) {
		c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(50 * time.Millisecond), Handler: handler(func(msg *message.Message) error {
			e, _ := schemas.FromContext(msg.Context())
			if string(msg.Payload) != "body" || e.Headers["tenant"] != "acme" {
				return retry.Permanent(errBroken)
			}
			e.Headers["tenant"], msg.Payload[0] = "changed", 'X'
			return onAttempt(msg, 1, errBroken)
		})}}
	})
	r.publish("", queue, amqp.Publishing{Body: []byte("body"), Headers: amqp.Table{"tenant": "acme"}})
	if e := r.wait(schemas.Handled); e.Attempt != 2 || e.Envelope.Headers["tenant"] != "acme" || string(e.Envelope.Body) != "body" {
		t.Errorf("%+v", e)
	}
}

// A handler may change a message of NewMessage; its exchange and routing key stay.
func TestNewMessageCanBeChanged(t *testing.T) {
	b := rabbittest.Newest(t)
	queue, target := rabbittest.Name(t), b.Queue(t, nil)
	r := start(t, b, func(c *Config) {
		c.Routes = []Route{{Queue: queue, Publish: Binding{Key: "elsewhere"}, Handler: func(msg *message.Message) ([]*message.Message, error) {
			out := NewMessage(schemas.Envelope{
				RoutingKey: target, Headers: amqp.Table{"n": int32(1), "gone": "x"}, Body: []byte("before"),
				Properties: schemas.Properties{Type: "changed"},
			})
			out.Payload, out.UUID = []byte("after"), "17"
			out.Metadata.Set("tenant", "acme")
			delete(out.Metadata, "gone")
			out.SetContext(msg.Context())
			return []*message.Message{out.Copy()}, nil
		}}}
	})
	r.publish("", queue, amqp.Publishing{})
	d := b.Take(t, target, 1)[0]
	delete(d.Headers, HeaderCausation)
	delete(d.Headers, "_watermill_message_uuid")
	if diff := cmp.Diff(amqp.Table{"n": int32(1), "tenant": "acme"}, d.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if string(d.Body) != "after" || d.MessageId != "17" || d.Type != "changed" {
		t.Errorf("%q, id %q, type %q", d.Body, d.MessageId, d.Type)
	}
}

// An envelope of the message being handled has its UUID in the header of the stock
// transport. The published message is another one.
func TestNewMessageIsNotItsParent(t *testing.T) {
	b := &routeHandler{messageFlow: &messageFlow{newID: watermill.NewULID, metrics: call.NewMetrics(nil)}, route: Route{Queue: "q"}}
	parent := wire.VerifiedState{State: schemas.State{Fingerprint: "v1:f"}}
	parent.Envelope.Properties.MessageID = "parent"
	e := schemas.Envelope{RoutingKey: "k", Headers: amqp.Table{"_watermill_message_uuid": "parent", "tenant": "acme"}}
	m, err := b.outgoingMessage(NewMessage(e), parent, 0)
	if err != nil || m.Properties.MessageID != completion("q", Binding{}, nil).DerivedID(parent, 0) {
		t.Errorf("id %q: %v", m.Properties.MessageID, err)
	}
	want := amqp.Table{"tenant": "acme", HeaderCausation: "parent"}
	if diff := cmp.Diff(want, m.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if e.Headers["_watermill_message_uuid"] != "parent" {
		t.Error("the handler's own envelope was changed")
	}
	b.route.Publish.Key = "elsewhere"
	tampered := NewMessage(e)
	tampered.Metadata.Set("_watership_outgoing", "no envelope")
	if _, err := b.outgoingMessage(tampered, parent, 0); err == nil {
		t.Error("a message that has lost where it goes was published")
	}
}
