package schemas_test

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// order is a message as its publisher sent it.
func order() schemas.Envelope {
	return schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created", Body: []byte("a violin"),
		Properties: schemas.Properties{MessageID: "17", Expiration: "60000"},
		Headers:    amqp.Table{"tenant": "acme"},
	}
}

// The fingerprint of a message is the same in every queue.
func ExampleEnvelope() {
	published := order()
	arrived := schemas.FromDelivery(amqp.Delivery{
		Exchange: "shop", RoutingKey: "order.created", Body: published.Body, MessageId: "17", Redelivered: true,
		Headers: amqp.Table{"tenant": "acme", "x-delivery-count": int64(1)},
	})
	fmt.Println(arrived.Fingerprint() == published.Fingerprint())
	// Output: true
}

func ExampleNewContext() {
	ctx := schemas.NewContext(context.Background(), order())
	e, ok := schemas.FromContext(ctx)
	fmt.Println(e.Exchange, ok)
	// Output: shop true
}

func ExampleState_Failed() {
	var state schemas.State
	for range 2 {
		state = state.Failed(time.Now(), time.Second, "stock", schemas.Failure{Message: "no such table"})
	}
	fmt.Println(state.Attempt, state.Queue, state.Failure.Message)
	// Output: 2 stock no such table
}

func ExampleEnvelope_PublisherHeaders() {
	e := schemas.Envelope{Headers: amqp.Table{"tenant": "acme", "x-death": []any{}, "watership-attempt": int32(2)}}
	fmt.Println(e.PublisherHeaders())
	// Output: map[tenant:acme]
}

func ExampleTopology() {
	topology := schemas.Topology{Prefix: "shop.messages"}
	fmt.Println(topology.Retry(), topology.Due(), topology.Owns("stock"))
	// Output: shop.messages.retry shop.messages.due false
}

func ExampleFingerprints() {
	rule := schemas.Fingerprints{IgnoreHeaders: []string{"retries"}}
	first := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"retries": int64(0)}}
	again := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"retries": int64(1)}}
	fmt.Println(first.Fingerprint() == again.Fingerprint(), rule.Of(first) == rule.Of(again))
	// Output: false true
}

func ExampleMessageStream() {
	fmt.Println(schemas.MessageStream{ID: "order-42"}.IsValid(), schemas.MessageStream{ID: "order\n42"}.IsValid())
	// Output: true false
}

// A key has 32 bytes or more, and until all processes have it, states without a signature count as well.
func ExampleStateKeys() {
	keys, err := schemas.ParseStateKeys([]byte("00112233445566778899aabbccddeeff\nunsigned\n"))
	fmt.Println(keys.Signs(), keys.Unsigned(), err)
	// Output: true true <nil>
}
