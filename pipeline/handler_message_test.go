package pipeline

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// A handler that changes nested headers and the body of its copy does not change the
// message that is tried again.
func TestHandlerChangesItsCopyAlone(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Handler: handler(func(msg *message.Message) error {
				e, _ := schemas.FromContext(msg.Context())
				e.Headers["meta"].(amqp.Table)["seen"] = "yes"
				e.Headers["list"].([]any)[0] = "changed"
				e.Headers["list"].([]any)[1].(amqp.Table)["seen"] = "yes"
				e.Headers["bytes"].([]byte)[0] = '!'
				msg.Payload[0], e.Body[0] = '!', '!'
				return onAttempt(msg, 1, errBroken)
			})}}
		})
		sent := schemas.Envelope{RoutingKey: queue, Body: []byte("body"), Headers: amqp.Table{
			"meta": amqp.Table{"a": int64(1)}, "list": []any{"first", amqp.Table{}}, "bytes": []byte("bytes"),
		}}
		r.publish("", queue, sent.Clone().Publishing())
		for _, action := range []schemas.Action{schemas.RetryScheduled, schemas.Handled} {
			if e := r.wait(action); !cmp.Equal(e.Envelope, sent) || e.Fingerprint != sent.Fingerprint() {
				t.Errorf("%s: %s", action, cmp.Diff(sent, e.Envelope))
			}
		}
	})
}

// Headers of Watership and of the broker are not published with a copy.
func TestOutgoingHasNoStateOfAnother(t *testing.T) {
	b := &routeHandler{messageFlow: &messageFlow{newID: func() string { return "id" }}}
	out, err := b.outgoingMessage(NewMessage(schemas.Envelope{RoutingKey: "q", Headers: amqp.Table{
		"watership-attempt": int64(3), "x-death": []any{}, "x-first-death-queue": "q", "x-own": "kept", "tenant": "acme",
	}}), wire.VerifiedState{State: schemas.State{Fingerprint: "v1:f"}}, 0)
	want := amqp.Table{"tenant": "acme", "x-own": "kept", HeaderCausation: "v1:f"}
	if diff := cmp.Diff(want, out.Headers); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
