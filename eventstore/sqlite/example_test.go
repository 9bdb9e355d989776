package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// A store in a file finds what it stored by a query of Kibana's language.
func ExampleOpen() {
	if err := storeAndFind(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: created: true
	// order.created a violin
}

func storeAndFind(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "watership")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "store.db")})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Install(ctx); err != nil {
		return err
	}

	now := time.Now()
	event := wire.Decoder{Source: "shop", VHost: "/"}.Tapped(amqp.Delivery{
		Exchange: "shop", RoutingKey: "order.created", Body: []byte("a violin"),
	}, now, now.UnixMicro())
	results, err := store.Create(ctx, []schemas.Document{schemas.DocumentFormat{}.Document(event)})
	if err != nil {
		return err
	}
	fmt.Println("created:", results[0].Status == eventstore.Created)

	query, err := kql.Parse("event.action: published and body.text: violin")
	if err != nil {
		return err
	}
	for found, err := range store.Events(ctx, eventstore.Selection{Query: query}) {
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", found.Envelope.RoutingKey, found.Envelope.Body)
	}
	return nil
}
