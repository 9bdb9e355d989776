package indexer_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/amqp"
	"github.com/watershipmq/watership/schemas"
)

func TestMain(m *testing.M) { os.Exit(rabbittest.WithExamples(m)) }

// printer is a store that prints what it is given, and has then seen enough.
type printer struct {
	indexer.Store
	enough context.CancelFunc
}

func (p printer) Create(_ context.Context, documents []schemas.Document) ([]schemas.Result, error) {
	defer p.enough()
	results := make([]schemas.Result, len(documents))
	for i, document := range documents {
		event, err := schemas.ParseDocument(document.Source)
		if err != nil {
			return nil, err
		}
		fmt.Printf("%s: %s, %s\n", event.Action, event.Envelope.RoutingKey, event.Envelope.Body)
		results[i].Status = schemas.Created
	}
	return results, nil
}

func (p printer) HighestSequence(context.Context) (int64, error) { return 0, nil }

func (p printer) HighestSequenceOf(context.Context, string) (int64, error) { return 0, nil }

func (p printer) KnownJobs(context.Context, []string) (map[string]bool, error) { return nil, nil }

func (p printer) Handover(context.Context, string) ([]byte, error) { return nil, nil }

func (p printer) SaveHandover(context.Context, string, []byte) error { return nil }

// Every message of a tapped exchange reaches the store.
func ExampleNew() {
	conn, err := rabbit.Open(rabbit.Config{URL: os.Getenv("AMQP_URL"), Name: "example", LargeFrames: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	ctx, enough := context.WithCancel(context.Background())
	defer enough()
	shop := amqp.TopologyConfig{QueueType: amqp.Classic, Tap: []amqp.Tap{{Exchange: "shop", Type: "topic"}}}
	if err := amqp.Declare(ctx, conn, shop); err != nil {
		fmt.Println(err)
		return
	}
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer publisher.Close()
	if err := publisher.Publish(ctx, rabbit.Message{
		Exchange: "shop", RoutingKey: "order.created", Publishing: amqp091.Publishing{Body: []byte("a violin")},
	}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(indexer.New(indexer.Config{
		Broker: conn, Publisher: publisher, Store: printer{enough: enough},
		Decoder: schemas.Decoder{Source: "shop", VHost: "/"},
	}).Run(ctx))
	// Output:
	// published: order.created, a violin
	// <nil>
}
