package transport_test

import (
	"context"
	"fmt"
	"os"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/transport"
)

// shop is a topology with one tapped exchange.
func shop() transport.TopologyConfig {
	return transport.TopologyConfig{
		QueueType: transport.Classic,
		Tap:       []transport.Tap{{Exchange: "shop", Type: "topic"}},
		Routes:    []transport.Route{{Queue: "stock", Bind: []transport.Bind{{Exchange: "shop", Key: "order.#"}}}},
		Delays:    []time.Duration{time.Second},
	}
}

// withConnection opens a connection for the time of f.
func withConnection(f func(ctx context.Context, conn *rabbit.Connection) error) {
	conn, err := rabbit.Open(rabbit.Config{URL: os.Getenv("AMQP_URL"), Name: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	if err := f(context.Background(), conn); err != nil {
		fmt.Println(err)
	}
}

// Declare is idempotent: existing exchanges and queues stay unchanged.
func ExampleDeclare() {
	withConnection(func(ctx context.Context, conn *rabbit.Connection) error {
		for range 2 {
			if err := transport.Declare(ctx, conn, shop()); err != nil {
				return err
			}
		}
		fmt.Println("declared")
		return nil
	})
	// Output: declared
}

// A delay that no policy names gets its queue when it is needed.
func ExampleLiveTopology_DeclareDelay() {
	withConnection(func(ctx context.Context, conn *rabbit.Connection) error {
		live := transport.LiveTopology{Conn: conn, Config: shop()}
		if err := live.Declare(ctx); err != nil {
			return err
		}
		if err := live.DeclareDelay(ctx, 90*time.Second); err != nil {
			return err
		}
		fmt.Println("declared", live.Config.Delay(90*time.Second))
		return nil
	})
	// Output: declared watership.wait.90000
}

// A publisher that declares deleted exchanges and queues of Watership again.
func ExampleNewSelfHealingPublisher() {
	withConnection(func(ctx context.Context, conn *rabbit.Connection) error {
		live := transport.LiveTopology{Conn: conn, Config: shop()}
		if err := live.Declare(ctx); err != nil {
			return err
		}
		publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
		defer publisher.Close()
		healing := transport.NewSelfHealingPublisher(publisher, live)
		err := healing.Publish(ctx, rabbit.Message{
			Exchange: live.Config.Events(), RoutingKey: "handled", Publishing: amqp.Publishing{Body: []byte("an event")},
		})
		fmt.Println("published:", err == nil)
		return err
	})
	// Output: published: true
}

// Subscribers may share a connection, and publishers another.
func ExampleNewSubscriberWithConnection() {
	withConnection(func(ctx context.Context, conn *rabbit.Connection) error {
		cfg := wamqp.NewDurableQueueConfig("")
		subscriber, err := transport.NewSubscriberWithConnection(cfg, nil, conn)
		if err != nil {
			return err
		}
		defer subscriber.Close()
		publisher, err := transport.NewPublisherWithConnection(cfg, conn)
		if err != nil {
			return err
		}
		defer publisher.Close()
		if err := subscriber.SubscribeInitialize("returns"); err != nil {
			return err
		}
		if err := publisher.Publish("returns", message.NewMessage("17", []byte("a broken violin"))); err != nil {
			return err
		}
		messages, err := subscriber.Subscribe(ctx, "returns")
		if err != nil {
			return err
		}
		returned := <-messages
		returned.Ack()
		fmt.Printf("%s\n", returned.Payload)
		return nil
	})
	// Output: a broken violin
}
