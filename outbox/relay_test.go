package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// loseLease is what another process does that takes the lease over from one that was suspended.
const loseLease = "UPDATE watership_lease SET holder = 'other', expires = 9000000000000000"

func execute(t *testing.T, db *sql.DB, statement string, arguments ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, arguments...); err != nil {
		t.Fatal(err)
	}
}

// awaitHolder waits until a relay has the lease.
func awaitHolder(t *testing.T, db *sql.DB) {
	t.Helper()
	rabbittest.Eventually(t, "a relay has the lease", func() bool { return count(t, db, "watership_lease") == 1 })
}

// A relay that has lost the lease sends no message that another one sends.
func TestNothingIsSentWithoutTheLease(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		queue, deliveries := consume(t, b.URL(), "invoices")
		log := &rabbittest.Log{}
		startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}, Lease: time.Hour, Logger: log.Logger()})
		awaitHolder(t, db.DB)
		err := database.InTx(t.Context(), db.DB, func(tx *sql.Tx) error {
			if err := database.Exec(t.Context(), tx, loseLease); err != nil {
				return err
			}
			return outbox.Publish(t.Context(), tx, schemas.Envelope{RoutingKey: queue, Body: []byte("first")})
		})
		if err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the relay knows that it lost the lease", func() bool { return log.Count("another process holds the lease") == 1 })
		execute(t, db.DB, "DELETE FROM watership_lease")
		publish(t, db.DB, schemas.Envelope{RoutingKey: queue, Body: []byte("second")})
		for _, want := range []string{"first", "second"} {
			if d := rabbittest.Receive(t, deliveries); string(d.Body) != want {
				t.Errorf("got %s, want %s", d.Body, want)
			}
		}
	})
}

// A relay that waits for the broker notices that it lost the lease, and drops what the broker does not have.
func TestALeaseLostWhileTheBrokerIsAway(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		b.RefuseConnections(true)
		log := &rabbittest.Log{}
		startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}, Lease: 300 * time.Millisecond, Logger: log.Logger()})
		publish(t, db.DB, schemas.Envelope{RoutingKey: "invoices", Body: []byte("first")})
		awaitHolder(t, db.DB)
		execute(t, db.DB, loseLease)
		rabbittest.Eventually(t, "the relay knows that it lost the lease", func() bool { return log.Count("another process holds the lease") == 1 })
		b.RefuseConnections(false)
		queue, deliveries := consume(t, b.URL(), "invoices")
		execute(t, db.DB, "DELETE FROM watership_lease")
		publish(t, db.DB, schemas.Envelope{RoutingKey: queue, Body: []byte("second")})
		for _, want := range []string{"first", "second"} {
			if d := rabbittest.Receive(t, deliveries); string(d.Body) != want {
				t.Errorf("got %s, want %s", d.Body, want)
			}
		}
	})
}

// A queue that does not confirm, and is deleted then, has answered: its messages are sent again, and say why
// they wait.
func TestASlowQueueThatIsDeleted(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		slow, _ := consume(t, b.URL(), "slow")
		answer := b.Inject(broker.Fault{Match: func(r broker.Request) bool { return r.RoutingKey == slow }, Do: broker.DelayConfirm(time.Hour)})
		r := startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}, ConfirmTimeout: 2 * time.Second})
		failures := func(text string) (n int) {
			refused, err := r.Refused(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, waiting := range refused {
				if strings.Contains(waiting.Failure, text) {
					n++
				}
			}
			return n
		}
		publish(t, db.DB, schemas.Envelope{RoutingKey: slow})
		rabbittest.Eventually(t, "the first message waits", func() bool { return failures("not confirmed in time") == 1 })
		deleteQueue(t, b.URL(), slow)
		answer()
		const messages = 20
		addWaiting(t, db.DB, slow, messages, 1)
		rabbittest.Eventually(t, "all are unroutable", func() bool {
			if n := failures("not confirmed in time"); n > 1 {
				t.Fatalf("%d messages that were not sent are said not to be confirmed", n-1)
			}
			return failures("NO_ROUTE") == messages+1
		})
	})
}

// addWaiting adds messages that were refused once, and are due at a time.
func addWaiting(t *testing.T, db *sql.DB, queue string, messages, due int) {
	t.Helper()
	execute(t, db, fmt.Sprintf(`INSERT INTO watership_outbox (exchange, routing_key, properties, body, attempts, due)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT '', '%s', '[]', $1, 1, %d FROM n`, messages, queue, due), []byte("x"))
}

func deleteQueue(t *testing.T, url, name string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDelete(name, false, false, false)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The messages of a queue that does not confirm, however many, hold up those that were refused no longer
// than one time-out.
func TestManyMessagesOfASlowQueue(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		slow, deliveries := consume(t, b.URL(), "slow")
		later, refused := consume(t, b.URL(), "later")
		var sent atomic.Int64
		confirm := b.Inject(broker.Fault{Match: func(r broker.Request) bool {
			if r.RoutingKey == slow {
				sent.Add(1)
			}
			return r.RoutingKey == slow
		}, Do: broker.DelayConfirm(time.Hour)})
		const messages, page = 3000, 500
		addWaiting(t, db.DB, slow, messages, 1)
		addWaiting(t, db.DB, later, 1, 2)
		startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}, ConfirmTimeout: 100 * time.Millisecond})
		rabbittest.Receive(t, refused)
		if n := sent.Load(); n > page {
			t.Errorf("%d messages of the slow queue were sent before; want %d or less", n, page)
		}
		confirm()
		for range messages {
			rabbittest.Receive(t, deliveries)
		}
		awaitEmpty(t, db.DB)
	})
}

// A relay ends although the database does not answer its last transaction.
func TestTheEndOfARelayWhileTheDatabaseHangs(t *testing.T) {
	db := databasetest.PostgreSQL(t)
	install(t, db.DB)
	b := broker.Start(t, broker.Config{})
	queue, deliveries := consume(t, b.URL(), "invoices")
	r, err := outbox.NewRelay(outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	defer func() { <-ended }()
	defer stop()
	awaitHolder(t, db.DB)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := database.Exec(t.Context(), tx, "SELECT 1 FROM watership_lease FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	publish(t, db.DB, schemas.Envelope{RoutingKey: queue})
	rabbittest.Receive(t, deliveries)
	stop()
	rabbittest.Ends(t, ended)
}
