package projection_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/schemas"
)

// TestSoakRebuildOfAMillion rebuilds totals from a million events, and compares the rate with
// the one of a loop over the reader. The memory stays the same. WATERSHIP_TEST_EVENTS is another number of events, a
// multiple of 1000.
func TestSoakRebuildOfAMillion(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("takes 10 minutes; WATERSHIP_TEST_SOAK=1 runs it")
	}
	events := 1_000_000
	if text := os.Getenv("WATERSHIP_TEST_EVENTS"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	o := newOrders(t)
	for range events / 1000 {
		o.add(t, 1000)
	}
	t.Logf("%d events are stored", events)
	loop := readAll(t, o, events)
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		cfg := o.config(db.DB)
		cfg.Tables = []string{"customer_totals"}
		cfg.Create = func(ctx context.Context, tx *sql.Tx, tables projection.Tables) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE "+tables.Name("customer_totals")+" (customer TEXT PRIMARY KEY, orders BIGINT NOT NULL, amount BIGINT NOT NULL)")
			return err
		}
		n, memory := 0, map[int]int{}
		cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
			if n++; n == events/10 || n == events/2 || n == events {
				memory[n] = residentMiB(t)
			}
			var order order
			if err := json.Unmarshal(event.Envelope.Body, &order); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO `+tables.Name("customer_totals")+` AS totals (customer, orders, amount) VALUES ($1, 1, $2)
				ON CONFLICT (customer) DO UPDATE SET orders = totals.orders + 1, amount = totals.amount + excluded.amount`, order.Customer, order.Amount)
			return err
		}
		bare := handleBare(t, o, db.DB, cfg, min(events, 200_000))
		n = 0
		begun := time.Now()
		g, err := newProjection(t, cfg).Rebuild(t.Context())
		if err != nil || g.Events != int64(events) {
			t.Fatalf("%+v, %v", g, err)
		}
		rate := float64(events) / time.Since(begun).Seconds()
		totals, err := read(t.Context(), db.DB)
		if err != nil || fmt.Sprint(totals) != fmt.Sprint(o.totals) {
			t.Errorf("the totals are %v, %v", totals, err)
		}
		t.Logf("%.0f events/s; a loop over the reader has %.0f/s (%.2f), with the handler %.0f/s (%.2f); resident MiB by events: %v",
			rate, loop, rate/loop, bare, rate/bare, memory)
		if memory[events] > memory[events/10]+50 {
			t.Errorf("the memory grew: %v", memory)
		}
	})
}

// readAll returns the rate of a loop over the reader.
func readAll(t *testing.T, o *orders, events int) float64 {
	t.Helper()
	reader, n, begun := o.config(nil).Reader, 0, time.Now()
	for item, err := range reader.Items(t.Context(), eventstore.Cursor{}) {
		if err != nil || item.Err != nil {
			t.Fatal(err, item.Err)
		}
		if item.CaughtUp {
			break
		}
		n++
	}
	if n != events {
		t.Fatalf("the reader has %d events", n)
	}
	return float64(n) / time.Since(begun).Seconds()
}

// handleBare returns the rate of a loop over the reader that handles events in transactions of
// the same size, without checkpoints.
func handleBare(t *testing.T, o *orders, db *sql.DB, cfg projection.Config, events int) float64 {
	t.Helper()
	const batch = 500
	tables := projection.Tables{} // of generation 0
	err := database.InTx(t.Context(), db, func(tx *sql.Tx) error { return cfg.Create(t.Context(), tx, tables) })
	if err != nil {
		t.Fatal(err)
	}
	n, begun := 0, time.Now()
	var tx *sql.Tx
	for item, err := range cfg.Reader.Items(t.Context(), eventstore.Cursor{}) {
		if err == nil && n%batch == 0 {
			tx, err = db.BeginTx(t.Context(), nil)
		}
		if err == nil {
			err = cfg.Handle(t.Context(), tx, tables, item.Event)
		}
		if n++; err == nil && n%batch == 0 {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == events {
			break
		}
	}
	return float64(events) / time.Since(begun).Seconds()
}

// residentMiB returns the memory of the process, which has the store and, of SQLite, the
// database.
func residentMiB(t *testing.T) int {
	t.Helper()
	var total, resident int
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &total, &resident)
	}
	if err != nil {
		t.Fatal(err)
	}
	return resident * os.Getpagesize() >> 20
}
