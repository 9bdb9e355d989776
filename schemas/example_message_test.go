package schemas_test

import (
	"context"
	"fmt"
	"strings"
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

// A message in Watership's queues has its state in headers, and so its expiration,
// which would remove it from the queue.
func ExampleFrameMax_Wrap() {
	state := schemas.State{}.Failed(time.Time{}, 0, "stock", schemas.Failure{Message: "no such table"})
	p := schemas.DefaultFrameMax.Wrap(order(), state)
	fmt.Printf("%q %v %v\n", p.Expiration, p.Headers["watership-expiration"], p.Headers["watership-attempt"])
	// Output: "" 60000 1
}

func ExampleEnvelope_Unwrap() {
	p := schemas.DefaultFrameMax.Wrap(order(), schemas.State{Queue: "stock", Attempt: 2})
	e, state, err := schemas.FromDelivery(amqp.Delivery{
		RoutingKey: schemas.Topology{}.Delays().Due(), Headers: p.Headers, Body: p.Body, MessageId: p.MessageId,
	}).Unwrap()
	fmt.Println(e.Exchange, e.RoutingKey, e.Properties.Expiration, state.Queue, state.Attempt, err)
	// Output: shop order.created 60000 stock 2 <nil>
}

// A replay to the original exchange is a new message: no attempt travels with it.
func ExampleFrameMax_WrapForExchange() {
	p := schemas.DefaultFrameMax.WrapForExchange(order(), schemas.State{Attempt: 3, Replay: "job-1"}, "guest")
	fmt.Println(p.Expiration, p.Headers["watership-replay"], p.Headers["watership-attempt"])
	// Output: 60000 job-1 <nil>
}

// The last hop restores the properties of the first publish.
func ExampleFrameMax_WrapForQueue() {
	p := schemas.DefaultFrameMax.WrapForQueue(order(), schemas.State{Queue: "stock", Attempt: 2}, "guest")
	fmt.Println(p.Expiration, p.Headers["watership-queue"], p.Headers["watership-attempt"])
	// Output: 60000 stock 2
}

func ExampleFrameMax_WrapWithoutBody() {
	p := schemas.DefaultFrameMax.WrapWithoutBody(order(), schemas.State{}, schemas.OmittedBody{Size: 8, In: schemas.BodyInPublished})
	fmt.Println(len(p.Body), p.Headers["watership-body-size"])
	// Output: 0 8
}

func ExampleOmittedBody() {
	p := schemas.DefaultFrameMax.WrapWithoutBody(order(), schemas.State{Queue: "stock", Attempt: 1},
		schemas.OmittedBody{Size: 8, In: schemas.BodyInPublished})
	body, omitted := schemas.Envelope{Headers: p.Headers}.OmittedBody()
	fmt.Println(body.Size, body.In, omitted)
	// Output: 8 published true
}

// A connection that negotiated small frames leaves less room for headers.
func ExampleFrameMax() {
	e := order()
	e.Headers["report"] = strings.Repeat("x", 10<<10)
	fmt.Println(schemas.DefaultFrameMax.LeavesRoom(e), schemas.FrameMax(16<<10).LeavesRoom(e))
	// Output: true false
}

// A state counts only with a signature by one of the keys.
func ExampleStateKeys() {
	keys, err := schemas.ParseStateKeys([]byte("00112233445566778899aabbccddeeff\n"))
	signs := schemas.Verifier{Keys: keys}
	e := order()
	p := schemas.DefaultFrameMax.WrapForQueue(e, schemas.State{Queue: "stock", Attempt: 2, Fingerprint: e.Fingerprint()}, "")
	direct := signs.Topology.Direct()
	arrived := e
	for range 2 {
		arrived.Exchange, arrived.Headers = direct, p.Headers
		verified, _ := signs.Verify(arrived, direct, "stock")
		fmt.Println(verified.State.Attempt, verified.Mismatch, err)
		p = signs.Sign(direct, "stock", p)
	}
	// Output:
	// 0 true <nil>
	// 2 false <nil>
}

// A state counts if it came by an exchange to which Watership alone publishes. It
// does not count if a service sent it with a message of its own.
func ExampleVerifier() {
	var verifier schemas.Verifier
	e := order()
	p := schemas.DefaultFrameMax.WrapForQueue(e, schemas.State{Queue: "stock", Attempt: 2, Fingerprint: e.Fingerprint()}, "")
	for _, exchange := range []string{verifier.Topology.Direct(), "shop"} {
		arrived := e
		arrived.Exchange, arrived.Headers = exchange, p.Headers
		verified, err := verifier.Verify(arrived, exchange, "stock")
		fmt.Println(exchange, verified.State.Attempt, verified.Mismatch, err)
	}
	// Output:
	// watership.direct 2 false <nil>
	// shop 0 true <nil>
}

func ExampleState_Failed() {
	var state schemas.State
	for range 2 {
		state = state.Failed(time.Now(), time.Second, "stock", schemas.Failure{Message: "no such table"})
	}
	fmt.Println(state.Attempt, state.Queue, state.Failure.Message)
	// Output: 2 stock no such table
}

// DeadLetter reads a message that a consumer in any language rejected.
func ExampleEnvelope_DeadLetter() {
	rejected := schemas.Envelope{
		Exchange: schemas.Topology{}.Retry(), RoutingKey: "order.created",
		Headers: amqp.Table{"x-death": []any{amqp.Table{
			"queue": "stock", "reason": "rejected", "exchange": "shop", "routing-keys": []any{"order.created"},
		}}},
	}
	letter, death, dead := rejected.DeadLetter(nil)
	fmt.Println(dead, letter.Exchange, death.Queue, death.Reason)
	// Output: true shop stock rejected
}

func ExampleHeaderFrameSize() {
	fmt.Println(schemas.HeaderFrameSize(amqp.Publishing{Headers: amqp.Table{"tenant": "acme"}}))
	// Output: 42
}

func ExampleSetByBroker() {
	fmt.Println(schemas.SetByBroker("x-death"), schemas.SetByBroker("x-tenant"))
	// Output: true false
}

func ExampleEnvelope_PublisherHeaders() {
	e := schemas.Envelope{Headers: amqp.Table{"tenant": "acme", "x-death": []any{}, "watership-attempt": int32(2)}}
	fmt.Println(e.PublisherHeaders())
	// Output: map[tenant:acme]
}

func ExampleDelays() {
	delays := schemas.Topology{}.Delays()
	queue := delays.Queue(1500 * time.Millisecond)
	fmt.Println(queue, delays.Has(queue), delays.Of(queue))
	// Output: watership.wait.1500 true 1.5s
}

func ExampleTopology() {
	topology := schemas.Topology{Prefix: "shop.messages"}
	fmt.Println(topology.Retry(), topology.Delays().Queue(1500*time.Millisecond), topology.Owns("stock"))
	// Output: shop.messages.retry shop.messages.wait.1500 false
}

// Many events travel as one message, and Unbundle returns them one by one.
func ExampleBundle() {
	var bundle schemas.Bundle
	fingerprint := schemas.Envelope{Exchange: "shop", Body: []byte("an order")}.Fingerprint()
	for _, id := range []string{"17", "18"} {
		bundle.Add(schemas.Event{
			State:  schemas.State{EventID: id, Fingerprint: fingerprint, Time: time.Unix(1_800_000_000, 0)},
			Action: schemas.Replayed,
		})
	}
	decoder := schemas.Decoder{}
	bundled := bundle.Publishing()
	events, _ := decoder.Unbundle(amqp.Delivery{
		Exchange: decoder.Topology.Events(), RoutingKey: string(schemas.Replayed),
		Headers: bundled.Headers, Body: bundled.Body,
	})
	for _, event := range events {
		fmt.Println(event.EventID)
	}
	// Output:
	// 17
	// 18
}

// A store that refuses a document because of its size gets it without the body, and
// a queue keeps the message for as long.
func ExampleEvent_WrapKept() {
	message := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: []byte("a very long order")}
	event := schemas.Event{Action: schemas.Published, Envelope: message}
	event.EventID, event.Fingerprint = "shop:17", message.Fingerprint()
	kept := event.WrapKept(event.Action.Stream(), time.Unix(1_800_000_000, 0))
	restored, _, err := (schemas.Envelope{Headers: kept.Headers, Body: kept.Body}).Unwrap()
	fmt.Printf("%s of %s, %v\n", restored.Body, restored.Exchange, err)
	// Output:
	// a very long order of shop, <nil>
}

// The queue of unstorable messages can delete a message with its document.
func ExampleKept() {
	event := schemas.Event{Action: schemas.Poisoned}
	event.EventID = "shop:17"
	kept := event.WrapKept(event.Action.Stream(), time.Unix(1_800_000_000, 0))
	until, is := schemas.Envelope{Headers: kept.Headers}.KeptFor()
	fmt.Println(until.EventID, until.Stream, until.Since.Unix(), is)
	// Output:
	// shop:17 failures 1800000000 true
}

func ExampleFingerprints() {
	rule := schemas.Fingerprints{IgnoreHeaders: []string{"retries"}}
	first := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"retries": int64(0)}}
	again := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"retries": int64(1)}}
	fmt.Println(first.Fingerprint() == again.Fingerprint(), rule.Of(first) == rule.Of(again))
	// Output: false true
}

// A message whose headers fill nearly a whole frame returns to its queue as a new one.
func ExampleFrameMax_CountsDeliveries() {
	full := order()
	full.Headers = amqp.Table{"report": strings.Repeat("x", 130_900)}
	for _, e := range []schemas.Envelope{order(), full} {
		fmt.Println(schemas.DefaultFrameMax.CountsDeliveries(e, schemas.State{Queue: "stock", Fingerprint: e.Fingerprint(), Deliveries: 2}))
	}
	// Output:
	// true
	// false
}

func ExampleMessageStream() {
	fmt.Println(schemas.MessageStream{ID: "order-42"}.IsValid(), schemas.MessageStream{ID: "order\n42"}.IsValid())
	// Output: true false
}
