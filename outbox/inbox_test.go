package outbox_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// book returns a handler that stores an order and returns an invoice. The first attempts at
// every third order fail after that.
func book(calls *atomic.Int64) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		calls.Add(1)
		if _, err := outbox.Tx(msg.Context()).ExecContext(msg.Context(), "INSERT INTO booked VALUES ($1)", msg.UUID); err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(string(msg.Payload))
		if err == nil && n%3 == 0 && retry.AttemptFrom(msg.Context()).Number == 1 {
			err = errors.New("no stock")
		}
		return []*message.Message{message.NewMessage("", msg.Payload)}, err
	}
}

// Every message is published twice, and handled once, with one invoice.
func TestInbox(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE booked (id TEXT NOT NULL)"); err != nil {
			t.Fatal(err)
		}
		b := broker.Start(t, broker.Config{})
		_, invoices := consume(t, b.URL(), "invoices")
		inbox := &outbox.Inbox{DB: db.DB, Publish: pipeline.Binding{Key: "invoices"}}
		var calls atomic.Int64
		p, err := pipeline.New(pipeline.Config{
			Standalone: true, Connection: rabbitmq.Connection{URL: b.URL()},
			Routes: []pipeline.Route{{
				Queue: "orders", Handler: inbox.Handler(book(&calls)), Policy: &retry.Policy{Delays: []time.Duration{10 * time.Millisecond}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		run(t, p.Run)
		<-p.Running()
		startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}})
		const orders = 60
		publishTwice(t, b.URL(), orders)
		seen := map[string]bool{}
		for len(seen) < orders {
			d := rabbittest.Receive(t, invoices)
			if seen[string(d.Body)] || d.MessageId == "" || d.CorrelationId != "order-"+string(d.Body) {
				t.Fatalf("the invoice is %+v", d)
			}
			seen[string(d.Body)] = true
		}
		rabbittest.Eventually(t, "the queue is empty", func() bool { return b.QueueLengths("/")["orders"] == 0 })
		awaitEmpty(t, db.DB)
		if n := count(t, db.DB, "booked"); n != orders {
			t.Errorf("%d orders were booked", n)
		}
		if n := count(t, db.DB, "watership_inbox"); n != orders {
			t.Errorf("the inbox has %d messages", n)
		}
		if len(invoices) > 0 || calls.Load() < orders+orders/3 {
			t.Errorf("%d more invoices, after %d calls", len(invoices), calls.Load())
		}
	})
}

func publishTwice(t *testing.T, url string, orders int) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	for n := range 2 * orders {
		if err != nil {
			t.Fatal(err)
		}
		var confirm *amqp.DeferredConfirmation
		id := strconv.Itoa(n % orders)
		confirm, err = ch.PublishWithDeferredConfirm("", "orders", true, false, amqp.Publishing{MessageId: "order-" + id, Body: []byte(id)})
		if err == nil && !confirm.Wait() {
			err = errors.New("not confirmed")
		}
	}
}

// delivered returns a message as a route gives it to a handler.
func delivered(t *testing.T, e schemas.Envelope, replay string) *message.Message {
	t.Helper()
	msg := message.NewMessage(e.Properties.MessageID, e.Body)
	ctx := schemas.NewContext(t.Context(), e)
	msg.SetContext(retry.ContextWithAttempt(ctx, retry.Attempt{Number: 1, Queue: "orders", Fingerprint: e.Fingerprint(), Replay: replay}))
	return msg
}

func TestWhichMessagesAreRepeats(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		calls := 0
		inbox := &outbox.Inbox{DB: db.DB}
		handler := inbox.Handler(func(*message.Message) ([]*message.Message, error) { calls++; return nil, nil })
		order := schemas.Envelope{RoutingKey: "orders", Body: []byte("tea"), Properties: schemas.Properties{MessageID: "order-1"}}
		other, anonymous := order, order
		other.Body, anonymous.Properties.MessageID = []byte("cake"), ""
		for i, step := range []struct {
			message *message.Message
			calls   int
		}{
			{delivered(t, order, ""), 1},
			{delivered(t, order, ""), 1},
			{delivered(t, order, "job"), 2},
			{delivered(t, order, "job"), 2},
			{delivered(t, other, ""), 3},
			{delivered(t, anonymous, ""), 4},
			{delivered(t, anonymous, ""), 5},
		} {
			if _, err := handler(step.message); err != nil || calls != step.calls {
				t.Errorf("step %d: %d calls, %v", i, calls, err)
			}
		}
	})
}

func TestRetentionOfTheInbox(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		for n := range 10 {
			_, err := db.ExecContext(t.Context(), "INSERT INTO watership_inbox VALUES ('orders', $1, $2)", fmt.Sprint("old-", n), time.Now().Add(-time.Hour).UnixMicro())
			if err != nil {
				t.Fatal(err)
			}
		}
		inbox := &outbox.Inbox{DB: db.DB, Retention: 30 * time.Minute}
		handler := inbox.Handler(func(*message.Message) ([]*message.Message, error) { return nil, nil })
		if _, err := handler(delivered(t, schemas.Envelope{Properties: schemas.Properties{MessageID: "new"}}, "")); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db.DB, "watership_inbox"); n != 1 {
			t.Errorf("the inbox has %d messages", n)
		}
	})
}

// Many old messages go as well, in a few steps.
func TestRetentionOfAFullInbox(t *testing.T) {
	db := databasetest.SQLite(t)
	install(t, db.DB)
	const old = 25_000 // more than are deleted at once
	_, err := db.ExecContext(t.Context(), "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < $1) INSERT INTO watership_inbox SELECT 'orders', n, 0 FROM n", old)
	if err != nil {
		t.Fatal(err)
	}
	inbox := &outbox.Inbox{DB: db.DB}
	handler := inbox.Handler(func(*message.Message) ([]*message.Message, error) { return nil, nil })
	for n := range 3 {
		if _, err := handler(delivered(t, schemas.Envelope{Properties: schemas.Properties{MessageID: fmt.Sprint(n)}}, "")); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, db.DB, "watership_inbox"); n != 3 {
		t.Errorf("the inbox has %d messages", n)
	}
}

// Without the database a message waits, and the handler's error stays its own.
func TestErrorsOfTheInbox(t *testing.T) {
	db := databasetest.SQLite(t)
	inbox := &outbox.Inbox{DB: db.DB}
	failed := errors.New("no stock")
	handler := inbox.Handler(func(*message.Message) ([]*message.Message, error) { return nil, failed })
	order := schemas.Envelope{Properties: schemas.Properties{MessageID: "order-1"}}
	var unavailable *retry.UnavailableError
	if _, err := handler(delivered(t, order, "")); !errors.Is(err, failed) || errors.As(err, &unavailable) {
		t.Errorf("got %v", err)
	}
	if n := count(t, db.DB, "watership_inbox"); n != 0 {
		t.Errorf("the inbox has %d messages", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := handler(delivered(t, order, "")); !errors.As(err, &unavailable) {
		t.Errorf("got %v", err)
	}
	if outbox.Tx(t.Context()) != nil {
		t.Error("a transaction outside of a handler")
	}
}

// A commit that fails because of what the handler did is a failed attempt, or its message would wait for ever.
func TestACommitThatTheHandlerMakesFail(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		if db.Driver == "sqlite" {
			db = databasetest.Open(t, db.Driver, db.Address+"&_pragma=foreign_keys(1)")
		}
		execute(t, db.DB, "CREATE TABLE customers (id BIGINT PRIMARY KEY)")
		execute(t, db.DB, "CREATE TABLE orders (customer BIGINT REFERENCES customers (id) DEFERRABLE INITIALLY DEFERRED)")
		inbox := &outbox.Inbox{DB: db.DB}
		handler := inbox.Handler(func(msg *message.Message) ([]*message.Message, error) {
			_, err := outbox.Tx(msg.Context()).ExecContext(msg.Context(), "INSERT INTO orders VALUES (7)")
			return nil, err
		})
		_, err := handler(delivered(t, schemas.Envelope{Properties: schemas.Properties{MessageID: "order-1"}}, ""))
		var unavailable *retry.UnavailableError
		if err == nil || errors.As(err, &unavailable) {
			t.Errorf("got %v", err)
		}
	})
}

// A database that goes away while a handler works costs its message no attempt.
func TestTheDatabaseGoesAwayDuringAHandler(t *testing.T) {
	db := databasetest.SQLite(t)
	inbox := &outbox.Inbox{DB: db.DB}
	handler := inbox.Handler(func(*message.Message) ([]*message.Message, error) {
		_ = db.Close()
		return nil, errors.New("saving the order: the database does not answer")
	})
	_, err := handler(delivered(t, schemas.Envelope{Properties: schemas.Properties{MessageID: "order-1"}}, ""))
	var unavailable *retry.UnavailableError
	if !errors.As(err, &unavailable) {
		t.Errorf("got %v", err)
	}
}

// The commit of a connection that is lost costs its message no attempt, although the database answers at once.
func TestAConnectionThatIsLostBeforeTheCommit(t *testing.T) {
	db := databasetest.PostgreSQL(t)
	inbox := &outbox.Inbox{DB: db.DB}
	handler := inbox.Handler(func(msg *message.Message) ([]*message.Message, error) {
		var session int
		if err := outbox.Tx(msg.Context()).QueryRowContext(msg.Context(), "SELECT pg_backend_pid()").Scan(&session); err != nil {
			return nil, err
		}
		_, err := db.ExecContext(msg.Context(), "SELECT pg_terminate_backend($1, 10000)", session)
		return nil, err
	})
	_, err := handler(delivered(t, schemas.Envelope{Properties: schemas.Properties{MessageID: "order-1"}}, ""))
	var unavailable *retry.UnavailableError
	if !errors.As(err, &unavailable) {
		t.Errorf("got %v", err)
	}
}
