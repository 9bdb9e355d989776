package outbox_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// A transaction that commits after others with higher ids were published is published before those that begin later.
func TestALateCommitKeepsItsPlace(t *testing.T) {
	db := databasetest.PostgreSQL(t)
	install(t, db.DB)
	b := broker.Start(t, broker.Config{})
	queue, deliveries := consume(t, b.URL(), "invoices")
	startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}})
	slow, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Rollback() }()
	if err := outbox.Publish(t.Context(), slow, schemas.Envelope{RoutingKey: queue, Body: []byte("slow")}); err != nil {
		t.Fatal(err)
	}
	const reads = 50 // at least, and several looks at the transactions
	for i := range reads {
		body := fmt.Sprint(i)
		publish(t, db.DB, schemas.Envelope{RoutingKey: queue, Body: []byte(body)})
		if d := rabbittest.Receive(t, deliveries); string(d.Body) != body {
			t.Fatalf("got %s, want %s", d.Body, body)
		}
	}
	if err := slow.Commit(); err != nil {
		t.Fatal(err)
	}
	publish(t, db.DB, schemas.Envelope{RoutingKey: queue, Body: []byte("later")})
	for _, want := range []string{"slow", "later"} {
		if d := rabbittest.Receive(t, deliveries); string(d.Body) != want {
			t.Errorf("got %s, want %s", d.Body, want)
		}
	}
}

// Ids that begin again, as after TRUNCATE with RESTART IDENTITY, are found.
func TestIdsThatBeginAgain(t *testing.T) {
	db := databasetest.PostgreSQL(t)
	install(t, db.DB)
	b := broker.Start(t, broker.Config{})
	queue, deliveries := consume(t, b.URL(), "invoices")
	startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}})
	const reads = 50
	for range reads {
		publish(t, db.DB, schemas.Envelope{RoutingKey: queue})
		rabbittest.Receive(t, deliveries)
	}
	awaitEmpty(t, db.DB)
	execute(t, db.DB, "TRUNCATE watership_outbox RESTART IDENTITY")
	publish(t, db.DB, schemas.Envelope{RoutingKey: queue})
	rabbittest.Receive(t, deliveries)
}

// deleteUnderASnapshot adds rows and deletes them, which an old snapshot keeps in the index.
func deleteUnderASnapshot(t testing.TB, db *sql.DB, rows int) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, statement := range []string{
		fmt.Sprintf("INSERT INTO watership_outbox (exchange, routing_key, properties, body) SELECT '', 'q', '[]', '' FROM generate_series(1, %d)", rows),
		"DELETE FROM watership_outbox",
	} {
		var seen int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM watership_outbox").Scan(&seen); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// A relay does not read the rows again and again that were published and deleted, while an old snapshot sees them.
func TestDeletedRowsAreNotRead(t *testing.T) {
	const rows, scans = 2000, 100
	db := databasetest.PostgreSQL(t)
	install(t, db.DB)
	deleteUnderASnapshot(t, db.DB, rows)
	startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: broker.Start(t, broker.Config{}).URL()}})
	type sample struct{ scans, read int64 }
	var last sample
	rabbittest.Eventually(t, fmt.Sprintf("%d reads find few of %d deleted rows", scans, rows), func() bool {
		var now sample
		query := "SELECT sum(idx_scan), sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relid = CAST('watership_outbox' AS regclass)"
		if err := db.QueryRowContext(t.Context(), query).Scan(&now.scans, &now.read); err != nil {
			t.Fatal(err)
		}
		if now.scans-last.scans < scans {
			return false
		}
		few := now.read-last.read <= 2*rows
		last = now
		return few
	})
}

// The time from a commit until the message arrives, beside deleted rows that an old snapshot sees.
func BenchmarkRelayBesideDeletedRows(b *testing.B) {
	const rows = 300_000
	db := databasetest.PostgreSQL(b)
	install(b, db.DB)
	deleteUnderASnapshot(b, db.DB, rows)
	embedded := broker.Start(b, broker.Config{})
	queue, deliveries := consume(b, embedded.URL(), "invoices")
	startRelay(b, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: embedded.URL()}})
	send := func() {
		publish(b, db.DB, schemas.Envelope{RoutingKey: queue})
		rabbittest.Receive(b, deliveries)
	}
	for range 50 { // until the relay knows where to begin
		send()
	}
	for b.Loop() {
		send()
	}
}
