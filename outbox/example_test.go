package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// The message is published because the transaction commits.
func ExampleRelay() {
	ctx, stop := context.WithCancel(context.Background())
	db, remove := openDatabase()
	defer remove()
	b := broker.New(broker.Config{})
	defer b.Close()
	if _, err := b.Listen("127.0.0.1:0"); err != nil {
		log.Fatal(err)
	}
	invoices := consumeInvoices(b.URL())

	if err := outbox.Install(ctx, db); err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = outbox.Publish(ctx, tx, schemas.Envelope{RoutingKey: "invoices", Body: []byte("invoice 17")})
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		log.Fatal(err)
	}

	relay, err := outbox.NewRelay(outbox.RelayConfig{DB: db, Connection: rabbitmq.Connection{URL: b.URL()}})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- relay.Run(ctx) }()
	fmt.Println(string((<-invoices).Body))
	stop()
	fmt.Println(<-ended)
	// Output:
	// invoice 17
	// <nil>
}

// A message that is delivered twice is handled once.
func ExampleInbox() {
	db, remove := openDatabase()
	defer remove()
	inbox := &outbox.Inbox{DB: db}
	handler := inbox.Handler(func(msg *message.Message) ([]*message.Message, error) { // of a pipeline.Route
		tx := outbox.Tx(msg.Context())
		fmt.Println(msg.UUID, "is handled in a transaction:", tx != nil)
		return nil, nil
	})
	for range 2 { // as a pipeline calls it
		order := schemas.Envelope{Properties: schemas.Properties{MessageID: "order-17"}}
		msg := message.NewMessage("order-17", nil)
		msg.SetContext(retry.ContextWithAttempt(schemas.NewContext(context.Background(), order), retry.Attempt{Number: 1, Queue: "orders"}))
		if _, err := handler(msg); err != nil {
			log.Fatal(err)
		}
	}
	// Output: order-17 is handled in a transaction: true
}

func ExampleInstall() {
	db, remove := openDatabase()
	defer remove()
	fmt.Println(outbox.Install(context.Background(), db))
	// Output: <nil>
}

func ExamplePublish() {
	ctx := context.Background()
	db, remove := openDatabase()
	defer remove()
	if err := outbox.Install(ctx, db); err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outbox.Publish(ctx, tx, schemas.Envelope{Exchange: "shop", RoutingKey: "invoice.made"}))
	fmt.Println(tx.Rollback()) // and the message is never published
	// Output:
	// <nil>
	// <nil>
}

func ExampleLoad() {
	ctx := context.Background()
	db, remove := openDatabase()
	defer remove()
	if err := outbox.Install(ctx, db); err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	fmt.Println(outbox.Append(ctx, tx, "order-17", 0, schemas.Envelope{Exchange: "shop", RoutingKey: "order.created"}))
	events, version, err := outbox.Load(ctx, tx, "order-17")
	fmt.Println(events[0].RoutingKey, version, err)
	// Output:
	// <nil>
	// order.created 1 <nil>
}

func ExampleTx() {
	fmt.Println(outbox.Tx(context.Background())) // outside of a handler
	// Output: <nil>
}

func ExampleNewRelay() {
	_, err := outbox.NewRelay(outbox.RelayConfig{})
	fmt.Println(err)
	// Output: a relay needs DB and URL
}

func openDatabase() (db *sql.DB, remove func()) {
	folder, err := os.MkdirTemp("", "")
	if err == nil {
		db, err = sql.Open("sqlite", "file:"+filepath.Join(folder, "invoices.db")+"?_pragma=busy_timeout(10000)")
	}
	if err != nil {
		log.Fatal(err)
	}
	return db, func() { db.Close(); os.RemoveAll(folder) }
}

// consumeInvoices consumes until the broker ends.
func consumeInvoices(url string) <-chan amqp.Delivery {
	conn, err := amqp.Dial(url)
	if err != nil {
		log.Fatal(err)
	}
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare("invoices", false, false, false, false, nil)
	}
	if err != nil {
		log.Fatal(err)
	}
	deliveries, err := ch.Consume("invoices", "", true, false, false, false, nil)
	if err != nil {
		log.Fatal(err)
	}
	return deliveries
}
