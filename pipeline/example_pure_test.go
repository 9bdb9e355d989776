package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

func ExampleNew() {
	_, err := pipeline.New(pipeline.Config{
		Connection:    rabbitmq.Connection{URL: "amqp://localhost/"},
		Routes:        []pipeline.Route{{Queue: "orders"}},
		RetriedDeaths: []string{"bored"},
	})
	fmt.Println(err)
	// Output:
	// retried deaths: "bored": expected any of [rejected expired maxlen delivery_limit]
	// the route of queue "orders" has no handler: expected one, or RoleRetry, which retries the dead letters of other consumers
}

// A handler gets the value of a body. A body that is another is poison at once.
func ExampleJSON() {
	type order struct{ Product string }
	route := pipeline.Route{Queue: "orders", Handler: pipeline.JSON(func(_ context.Context, o order) ([]*message.Message, error) {
		fmt.Println("invoice for", o.Product)
		return nil, nil
	})}
	for _, body := range []string{`{"product": "tea"}`, `{"product": 7}`} {
		_, err := route.Call(context.Background(), schemas.Envelope{Body: []byte(body)})
		fmt.Println(retry.IsPermanent(err), retry.ClassOf(err))
	}
	// Output:
	// invoice for tea
	// false default
	// true schema
}

func ExampleConfig_Delays() {
	policy := retry.Policy{Delays: []time.Duration{time.Second, time.Minute}}
	cfg := pipeline.Config{Default: &policy}
	fmt.Println(cfg.Delays())
	// Output: [1s 1m0s]
}

// Watermill's middleware wraps the handlers that acknowledge messages.
func ExamplePipeline_Router() {
	p, err := pipeline.New(pipeline.Config{Connection: rabbitmq.Connection{URL: "amqp://localhost/"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Router().AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			defer fmt.Println("settled next:", msg.UUID)
			return next(msg)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // Run also closes what New opened
	fmt.Println(p.Run(ctx))
	// Output: <nil>
}

// Run waits for a broker that is away; Running tells when all is well.
func ExamplePipeline_Running() {
	p, err := pipeline.New(pipeline.Config{Connection: rabbitmq.Connection{URL: "amqp://127.0.0.1:1/"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-p.Running():
		fmt.Println("running")
	case <-ended:
		fmt.Println("ended before it ran")
	}
	// Output: ended before it ran
}

// The messages that a handler returns are published to their exchanges before its own
// message is acknowledged.
func ExampleNewMessage() {
	handler := func(*message.Message) ([]*message.Message, error) {
		return []*message.Message{pipeline.NewMessage(schemas.Envelope{
			Exchange: "shop", RoutingKey: "invoice.made", Body: []byte("invoice 17"),
			Properties: schemas.Properties{ContentType: "text/plain"},
		})}, nil
	}
	produced, err := handler(message.NewMessage("", nil))
	fmt.Printf("%s %v\n", produced[0].Payload, err)
	// Output: invoice 17 <nil>
}

// A handler that stores its outgoing messages instead of returning them completes them first.
func ExampleOutgoingEnvelope() {
	ctx := schemas.NewContext(context.Background(), schemas.Envelope{Properties: schemas.Properties{MessageID: "order-17"}})
	returned := message.NewMessage("", []byte("invoice 17"))
	e, err := pipeline.OutgoingEnvelope(ctx, returned, 0, pipeline.Binding{Exchange: "shop", Key: "invoice.made"})
	fmt.Println(e.Exchange, e.RoutingKey, e.Properties.CorrelationID, string(e.Body), err)
	// Output: shop invoice.made order-17 invoice 17 <nil>
}

// Declare is idempotent: existing exchanges and queues stay unchanged. The broker is one
// for tests.
func ExampleDeclare() {
	rabbit := broker.New(broker.Config{})
	defer rabbit.Close()
	if _, err := rabbit.Listen("127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	cfg := pipeline.Config{Connection: rabbitmq.Connection{URL: rabbit.URL()}, Logger: slog.New(slog.DiscardHandler)}
	for range 2 {
		fmt.Println(pipeline.Declare(context.Background(), cfg))
	}
	// Output:
	// <nil>
	// <nil>
}
