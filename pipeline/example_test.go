package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A service that makes invoices of orders. Every message of the exchange shop is
// recorded, failed messages are tried again, and those that cannot succeed are poison.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := pipeline.New(pipeline.Config{
		Connection: rabbitmq.Connection{URL: os.Getenv("AMQP_URL")},
		Tap:        []pipeline.Tap{{Exchange: "shop", Type: "topic"}},
		Routes: []pipeline.Route{{
			Queue:   "orders",
			Bind:    []pipeline.Binding{{Exchange: "shop", Key: "order.#"}},
			Handler: invoice,
			Timeout: 10 * time.Second,
			Policy:  &retry.Policy{First: 100 * time.Millisecond, Cap: time.Minute, Attempts: 8},
		}},
		Standalone: true, // no process runs watership serve
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Run(ctx); err != nil { // until SIGTERM
		log.Fatal(err)
	}
}

// invoice decides by its error whether a message is tried again.
func invoice(msg *message.Message) ([]*message.Message, error) {
	var order struct{ Customer string }
	if err := json.Unmarshal(msg.Payload, &order); err != nil {
		return nil, retry.Permanent(fmt.Errorf("reading an order: %w", err))
	}
	if retry.AttemptFrom(msg.Context()).Number == 1 {
		return nil, errors.New("the first attempt fails")
	}
	return []*message.Message{pipeline.NewMessage(schemas.Envelope{
		Exchange: "shop", RoutingKey: "invoice.made", Body: []byte(`{"to":"` + order.Customer + `"}`),
		Properties: schemas.Properties{ContentType: "application/json"},
	})}, nil
}
