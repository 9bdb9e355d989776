package projection_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// Rebuild computes how many messages were published with each routing key.
func ExampleProjection_Rebuild() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := storeWithOrders(ctx, filepath.Join(folder, "store.db"), "order.created", "order.paid", "order.created")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "keys.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	keys := newKeys(db, store)
	if _, err := keys.Rebuild(ctx); err != nil {
		log.Fatal(err)
	}
	var n int
	err = db.QueryRowContext(ctx, "SELECT messages FROM routing_keys WHERE name = 'order.created'").Scan(&n)
	fmt.Println("order.created:", n, err)
	// Output: order.created: 2 <nil>
}

// Main is the body of a program with the commands run, rebuild, status and parked.
func ExampleProjection_Main() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := storeWithOrders(context.Background(), filepath.Join(folder, "store.db"), "order.created")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "keys.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := newKeys(db, store).Main(context.Background(), []string{"rebuild"}, os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output: generation 1 is read now: 1 event, version 1
}

// The tables of a generation that no program reads, such as those of Projection.UpTo, have names of their own.
func ExampleGeneration() {
	g := projection.Generation{Number: 3, State: projection.Past}
	fmt.Println(g.Tables().Name("routing_keys"))
	// Output: routing_keys_g3
}

// Create and Handle get the names of the tables of the generation that they work on.
func ExampleTables() {
	create := func(ctx context.Context, tx *sql.Tx, tables projection.Tables) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE "+tables.Name("routing_keys")+" (name TEXT PRIMARY KEY, messages BIGINT NOT NULL)")
		return err
	}
	fmt.Println(create != nil, projection.Tables{}.Name("routing_keys"))
	// Output: true routing_keys_g0
}

func ExampleNew() {
	_, err := projection.New(projection.Config{Name: "routing keys"})
	fmt.Println(err != nil)
	// Output: true
}

func newKeys(db *sql.DB, store *sqlite.Store) *projection.Projection {
	keys, err := projection.New(projection.Config{
		Name: "routing_keys", Version: 1, Tables: []string{"routing_keys"}, DB: db,
		Reader: subscription.Reader{Store: store, Source: "shop"},
		Create: func(ctx context.Context, tx *sql.Tx, tables projection.Tables) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE "+tables.Name("routing_keys")+" (name TEXT PRIMARY KEY, messages BIGINT NOT NULL)")
			return err
		},
		Handle: func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO "+tables.Name("routing_keys")+" AS keys VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET messages = keys.messages + 1",
				event.Envelope.RoutingKey)
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return keys
}

// storeWithOrders returns a store with a message for each routing key.
func storeWithOrders(ctx context.Context, path string, keys ...string) (*sqlite.Store, error) {
	store, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		return nil, err
	}
	if err := store.Install(ctx); err != nil {
		return nil, err
	}
	var documents []schemas.Document
	for i, key := range keys {
		now := time.Now().Add(time.Duration(i) * time.Microsecond)
		event := wire.Decoder{Source: "shop", VHost: "/"}.Tapped(amqp.Delivery{Exchange: "shop", RoutingKey: key, MessageId: fmt.Sprint("order-", i)}, now, now.UnixMicro())
		documents = append(documents, schemas.DocumentFormat{}.Document(event))
	}
	_, err = store.Create(ctx, documents)
	return store, err
}
