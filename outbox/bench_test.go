package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/schemas"
)

// onBoth runs a benchmark on SQLite and PostgreSQL.
func onBoth(b *testing.B, run func(*testing.B, *sql.DB)) {
	for name, open := range map[string]func(testing.TB) databasetest.Database{"SQLite": databasetest.SQLite, "PostgreSQL": databasetest.PostgreSQL} {
		b.Run(name, func(b *testing.B) {
			db := open(b).DB
			install(b, db)
			if _, err := db.ExecContext(b.Context(), "CREATE TABLE bare (id BIGINT PRIMARY KEY, body "+map[string]string{"SQLite": "BLOB", "PostgreSQL": "BYTEA"}[name]+" NOT NULL)"); err != nil {
				b.Fatal(err)
			}
			run(b, db)
		})
	}
}

// inTx runs an operation of a benchmark in a transaction.
func inTx(b *testing.B, db *sql.DB, do func(ctx context.Context, tx *sql.Tx) error) {
	if err := database.InTx(b.Context(), db, func(tx *sql.Tx) error { return do(b.Context(), tx) }); err != nil {
		b.Fatal(err)
	}
}

// A transaction with Append of an event of 1 KiB, beside one with an insert of as many bytes.
func BenchmarkAppend(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1024)
	onBoth(b, func(b *testing.B, db *sql.DB) {
		n := int64(0)
		b.Run("append", func(b *testing.B) {
			for b.Loop() {
				inTx(b, db, func(ctx context.Context, tx *sql.Tx) error {
					return outbox.Append(ctx, tx, "order-42", n, schemas.Envelope{Exchange: "shop", RoutingKey: "order.paid", Body: body})
				})
				n++
			}
		})
		id := 0
		b.Run("bare", func(b *testing.B) {
			for b.Loop() {
				id++
				inTx(b, db, func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO bare VALUES ($1, $2)", id, body)
					return err
				})
			}
		})
	})
}

// Load of a stream of 1,000 events of 1 KiB, beside a select of as many rows.
func BenchmarkLoad(b *testing.B) {
	const events = 1000
	body := bytes.Repeat([]byte("x"), 1024)
	onBoth(b, func(b *testing.B, db *sql.DB) {
		inTx(b, db, func(ctx context.Context, tx *sql.Tx) error {
			for n := range int64(events) {
				if err := outbox.Append(ctx, tx, "order-42", n, schemas.Envelope{Exchange: "shop", RoutingKey: "order.paid", Body: body}); err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "INSERT INTO bare VALUES ($1, $2)", n, body); err != nil {
					return err
				}
			}
			return nil
		})
		b.Run("load", func(b *testing.B) {
			for b.Loop() {
				inTx(b, db, func(ctx context.Context, tx *sql.Tx) error {
					loaded, _, err := outbox.Load(ctx, tx, "order-42")
					if err == nil && len(loaded) != events {
						err = fmt.Errorf("%d events", len(loaded))
					}
					return err
				})
			}
		})
		b.Run("bare", func(b *testing.B) {
			for b.Loop() {
				inTx(b, db, selectBare)
			}
		})
	})
}

func selectBare(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT body FROM bare ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return err
		}
	}
	return rows.Err()
}
