package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

func TestMain(m *testing.M) { os.Exit(rabbittest.WithExamples(m)) }

// connection is a connection of RabbitMQ's client. It does not reconnect.
type connection struct{ *amqp.Connection }

func (c connection) Do(_ context.Context, f func(*amqp.Channel) error) error {
	channel, err := c.Channel()
	if err != nil {
		return err
	}
	return errors.Join(f(channel), channel.Close())
}

func (c connection) ServerVersion(context.Context) (string, error) {
	version, _ := c.Properties["version"].(string)
	return version, nil
}

func (c connection) Consume(ctx context.Context, queue string, prefetch int, f func(context.Context, <-chan amqp.Delivery) error) error {
	return c.Do(ctx, func(channel *amqp.Channel) error {
		if err := channel.Qos(prefetch, 0, false); err != nil {
			return err
		}
		deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		return f(ctx, deliveries)
	})
}

func (c connection) Publish(ctx context.Context, exchange, routingKey string, m amqp.Publishing) error {
	return c.Do(ctx, func(channel *amqp.Channel) error {
		if err := channel.Confirm(false); err != nil {
			return err
		}
		unroutable := channel.NotifyReturn(make(chan amqp.Return, 1))
		confirm, err := channel.PublishWithDeferredConfirm(exchange, routingKey, true, false, m)
		if err != nil {
			return err
		}
		if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
			return errors.Join(errors.New("RabbitMQ did not confirm the message"), err)
		}
		select {
		case <-unroutable: // it comes before the confirm
			return errors.New("the message reached no queue")
		default:
			return nil
		}
	})
}

// printer is a Store that prints the first documents and stops the indexer.
type printer struct {
	indexer.Store
	stop context.CancelFunc
}

func (p printer) Create(_ context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	defer p.stop()
	results := make([]eventstore.Result, len(documents))
	for i, document := range documents {
		event, err := schemas.ParseDocument(document.Source)
		if err != nil {
			return nil, err
		}
		fmt.Printf("%s: %s, %s\n", event.Action, event.Envelope.RoutingKey, event.Envelope.Body)
		results[i].Status = eventstore.Created
	}
	return results, nil
}

func (p printer) HighestSequence(context.Context) (int64, error) { return 0, nil }

func (p printer) HighestSequenceOf(context.Context, string) (int64, error) { return 0, nil }

func (p printer) KnownJobs(context.Context, []string) (map[string]bool, error) { return nil, nil }

func (p printer) Handover(context.Context, string) ([]byte, error) { return nil, nil }

func (p printer) SaveHandover(context.Context, string, []byte) error { return nil }

func (p printer) Record(context.Context, string, string) ([]byte, string, error) { return nil, "", nil }

func (p printer) CreateRecord(context.Context, string, string, []byte) (string, error) {
	return "1", nil
}

func (p printer) SaveRecord(context.Context, string, string, string, []byte) (string, error) {
	return "2", nil
}

// Every message of a tapped exchange reaches the store.
func ExampleNew() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := publishOrder(ctx, "a violin"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(indexer.New(indexer.Config{Connection: rabbitmq.Connection{URL: os.Getenv("AMQP_URL")}, Store: printer{stop: stop}}).Run(ctx))
	// Output:
	// published: order.created, a violin
	// <nil>
}

// A program that has connections already shares them with the indexer.
func ExampleConfig() {
	client, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := publishOrder(ctx, "a cello"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(indexer.New(indexer.Config{
		Broker: connection{client}, Publisher: connection{client}, Store: printer{stop: stop},
		Source: "shop", VHost: "/",
	}).Run(ctx))
	// Output:
	// published: order.created, a cello
	// <nil>
}

// publishOrder publishes a message to a tapped exchange.
func publishOrder(ctx context.Context, order string) error {
	client, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := declareTap(ctx, "shop"); err != nil {
		return err
	}
	return connection{client}.Publish(ctx, "shop", "order.created", amqp.Publishing{Body: []byte(order)})
}

// declareTap declares the exchange and the tap of its messages, as a pipeline does.
func declareTap(ctx context.Context, exchange string) (err error) {
	conn, err := rabbit.Open(rabbit.Config{URL: os.Getenv("AMQP_URL"), Name: "example"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return topology.Declare(ctx, conn, topology.Config{
		Tap: []topology.Tap{{Exchange: exchange, Type: "topic"}},
	})
}
