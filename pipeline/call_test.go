package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/handler/outgoing"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// The messages of a call are those that the route would publish, with the same ids.
func TestCall(t *testing.T) {
	headers := amqp.Table{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "shop=1", "tenant": "acme"}
	order := schemas.Envelope{Exchange: "shop", RoutingKey: "order", Headers: headers, Body: []byte("a violin"), Properties: schemas.Properties{MessageID: "m-1", CorrelationID: "c"}}
	ctx := retry.ContextWithAttempt(t.Context(), retry.Attempt{Number: 1, Queue: "orders", Fingerprint: order.Fingerprint()})
	route := pipeline.Route{Queue: "orders", Publish: pipeline.Binding{Exchange: "mails", Key: "mail"}, Handler: func(m *message.Message) ([]*message.Message, error) {
		from, _ := schemas.FromContext(m.Context())
		return []*message.Message{message.NewMessage("", append([]byte(from.RoutingKey+": "), m.Payload...))}, nil
	}}
	got, err := route.Call(ctx, order)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	p := got[0].Properties
	if got[0].Exchange != "mails" || got[0].RoutingKey != "mail" || string(got[0].Body) != "order: a violin" || got[0].Headers[pipeline.HeaderCausation] != "m-1" ||
		p.CorrelationID != "c" || p.MessageID != outgoing.ID(order.Fingerprint(), "orders", 0, "") {
		t.Errorf("%+v", got[0])
	}
	if delete(got[0].Headers, pipeline.HeaderCausation); len(got[0].Headers) != 2 || got[0].Headers["traceparent"] != headers["traceparent"] || got[0].Headers["tracestate"] != "shop=1" {
		t.Errorf("it inherits %v", got[0].Headers)
	}
	for name, handler := range map[string]message.HandlerFunc{
		"fails":  func(*message.Message) ([]*message.Message, error) { return nil, errors.New("fails") },
		"panic":  func(*message.Message) ([]*message.Message, error) { panic("broken") },
		"is nil": func(*message.Message) ([]*message.Message, error) { return []*message.Message{nil}, nil },
	} {
		route.Handler = handler
		if got, err := route.Call(ctx, order); err == nil || len(got) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func ExampleRoute_Call() {
	route := pipeline.Route{Queue: "orders", Handler: func(m *message.Message) ([]*message.Message, error) {
		return []*message.Message{pipeline.NewMessage(schemas.Envelope{Exchange: "mails", RoutingKey: "mail", Body: m.Payload})}, nil
	}}
	outgoing, err := route.Call(context.Background(), schemas.Envelope{Body: []byte("a violin")})
	fmt.Println(outgoing[0].Exchange, string(outgoing[0].Body), err)
	// Output: mails a violin <nil>
}
