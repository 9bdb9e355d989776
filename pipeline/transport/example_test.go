package transport_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/transport"
)

func TestMain(m *testing.M) { os.Exit(rabbittest.WithExamples(m)) }

// A Watermill user swaps the constructors and keeps the configuration.
func Example() {
	cfg := wamqp.NewDurableQueueConfig(os.Getenv("AMQP_URL"))
	subscriber, err := transport.NewSubscriber(cfg, nil, transport.Concurrency(8))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer subscriber.Close()
	publisher, err := transport.NewPublisher(cfg, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer publisher.Close()

	messages, err := subscriber.Subscribe(context.Background(), "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := publisher.Publish("orders", message.NewMessage("17", []byte("a violin"))); err != nil {
		fmt.Println(err)
		return
	}
	order := <-messages
	fmt.Printf("%s: %s\n", order.UUID, order.Payload)
	order.Ack()
	// Output: 17: a violin
}

// The options of a subscriber that handles many messages at once and is patient
// with those it could not handle.
func ExampleNewSubscriber() {
	subscriber, err := transport.NewSubscriber(wamqp.NewDurableQueueConfig(os.Getenv("AMQP_URL")), nil,
		transport.Concurrency(100),
		transport.NackBackoff(time.Second, time.Minute),
		transport.StopTimeout(30*time.Second),
		transport.ConnectionName("shop"),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(subscriber.Close())
	// Output: <nil>
}

// Options are the last arguments of the constructors.
func ExampleOption() {
	options := []transport.Option{transport.Concurrency(100), transport.ConnectionName("shop")}
	_, err := transport.NewSubscriber(wamqp.Config{}, nil, options...)
	fmt.Println(err != nil) // there is no URL
	// Output: true
}

// Messages published after SubscribeInitialize are kept for a later Subscribe.
func ExampleSubscriber_SubscribeInitialize() {
	subscriber, err := transport.NewSubscriber(wamqp.NewDurableQueueConfig(os.Getenv("AMQP_URL")), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer subscriber.Close()
	fmt.Println(subscriber.SubscribeInitialize("invoices"))
	// Output: <nil>
}

// A publish that reaches no queue is an error where the configuration says so.
func ExampleNewPublisher() {
	cfg := wamqp.NewDurableQueueConfig(os.Getenv("AMQP_URL"))
	cfg.Publish.Mandatory = true
	publisher, err := transport.NewPublisher(cfg, nil, transport.Window(100), transport.PublishTimeout(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer publisher.Close()
	err = publisher.Publish("nowhere", message.NewMessage("17", nil))
	var lost *transport.UnroutableError
	fmt.Println(errors.As(err, &lost))
	// Output: true
}

// A lossless marshaler for those who stay on the stock transport.
func ExampleMarshaler() {
	delivery := amqp.Delivery{
		Exchange: "shop", MessageId: "17", ReplyTo: "answers", Body: []byte("a violin"),
		Headers: amqp.Table{"tenant": "acme", "strings": int32(4)},
	}
	msg, err := transport.Marshaler{}.Unmarshal(delivery)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(msg.UUID, msg.Metadata["tenant"])
	again, err := transport.Marshaler{}.Marshal(msg)
	fmt.Println(again.ReplyTo, again.Headers["strings"], err)
	// Output:
	// 17 acme
	// answers 4 <nil>
}

// The envelope survives message.Copy, which loses a message's context.
func ExampleEnvelopeOf() {
	msg, err := transport.Marshaler{}.Unmarshal(amqp.Delivery{Exchange: "shop", RoutingKey: "order.paid"})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, ok := transport.EnvelopeOf(msg.Copy())
	fmt.Println(e.Exchange, e.RoutingKey, ok)
	// Output: shop order.paid true
}

func ExampleRedelivered() {
	handler := func(msg *message.Message) error {
		if transport.Redelivered(msg.Context()) {
			fmt.Println("somebody may have begun this before")
		}
		return nil
	}
	fmt.Println(handler(message.NewMessage("", nil)))
	// Output: <nil>
}

// Subscribers may share a connection, and publishers another.
func ExampleNewConnection() {
	cfg := wamqp.NewDurableQueueConfig(os.Getenv("AMQP_URL"))
	connection, err := transport.NewConnection(cfg.Connection, nil, transport.ConnectionName("shop"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer connection.Close()
	subscriber, err := transport.NewSubscriberWithConnection(cfg, nil, connection)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer subscriber.Close()
	fmt.Println(subscriber.SubscribeInitialize("returns"), connection.Err())
	// Output: <nil> <nil>
}

// A subscriber of a cluster connects to a node that answers.
func ExampleNodes() {
	subscriber, err := transport.NewSubscriber(wamqp.NewDurableQueueConfig(os.Getenv("AMQP_URL")), nil, transport.Nodes("127.0.0.1:1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer subscriber.Close()
	fmt.Println(subscriber.SubscribeInitialize("returns"))
	// Output: <nil>
}

// A publisher closes before its connection.
func ExampleNewPublisherWithConnection() {
	cfg := wamqp.NewDurableQueueConfig(os.Getenv("AMQP_URL"))
	connection, err := transport.NewConnection(cfg.Connection, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer connection.Close()
	publisher, err := transport.NewPublisherWithConnection(cfg, connection)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer publisher.Close()
	fmt.Println(publisher.Publish("invoices", message.NewMessage("17", []byte("a violin"))))
	// Output: <nil>
}
