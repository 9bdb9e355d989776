package projection_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

const source = "shop"

// orders is a store of orders, and the totals of its customers.
type orders struct {
	store  *sqlite.Store
	path   string
	n      int64
	step   int64 // microseconds between two orders
	totals map[string]total
}

type total struct{ Orders, Amount int64 }

func newOrders(t testing.TB) *orders {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.db")
	return &orders{store: openStore(t, path), path: path, step: 1, totals: map[string]total{}}
}

func openStore(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err == nil {
		t.Cleanup(func() { _ = store.Close() })
		err = store.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

type order struct {
	Customer string
	Amount   int64
}

// add stores orders of ten customers.
func (o *orders) add(t testing.TB, count int) {
	t.Helper()
	var documents []schemas.Document
	for range count {
		o.n++
		order := order{fmt.Sprintf("c%d", o.n%10), o.n % 100}
		body, err := json.Marshal(order)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document(o.n, o.n*o.step, body))
		sum := o.totals[order.Customer]
		o.totals[order.Customer] = total{sum.Orders + 1, sum.Amount + order.Amount}
	}
	results, err := o.store.Create(t.Context(), documents)
	if err != nil || slices.ContainsFunc(results, func(r eventstore.Result) bool { return r.Status != eventstore.Created }) {
		t.Fatalf("%+v, %v", results, err)
	}
}

func document(n, sequence int64, body []byte) schemas.Document {
	e := schemas.Event{Action: schemas.Published, Sequence: sequence, Source: source, VHost: "/"}
	e.Time = time.UnixMicro(sequence).UTC()
	e.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: body}
	e.Fingerprint = e.Envelope.Fingerprint()
	e.EventID = fmt.Sprintf("%s-%d", source, n)
	return schemas.DocumentFormat{}.Document(e)
}

// retain removes the orders up to the nth one, as the retention of the store does. Their steps are
// longer than the test.
func (o *orders) retain(t testing.TB, nth int64) {
	t.Helper()
	before := time.UnixMicro(nth*o.step + o.step/2)
	retention := map[schemas.Stream]time.Duration{schemas.Traffic: time.Since(before)}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: o.path, Retention: retention})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Retain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// config describes the totals of the customers. The log has a row for each time that an event
// was handled.
func (o *orders) config(db *sql.DB) projection.Config {
	return projection.Config{
		Name: "customer_totals", Version: 1, Tables: []string{"customer_totals", "customer_log"},
		Create: createTotals, Handle: addOrder, DB: db,
		Reader: subscription.Reader{Store: o.store, Source: source, Interval: 5 * time.Millisecond},
		Lease:  2 * time.Second,
	}
}

func createTotals(ctx context.Context, tx *sql.Tx, tables projection.Tables) error {
	for _, statement := range []string{
		"CREATE TABLE " + tables.Name("customer_totals") + " (customer TEXT PRIMARY KEY, orders BIGINT NOT NULL, amount BIGINT NOT NULL)",
		"CREATE TABLE " + tables.Name("customer_log") + " (event_id TEXT NOT NULL)",
		"CREATE INDEX " + tables.Name("customer_log_event") + " ON " + tables.Name("customer_log") + " (event_id)",
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func addOrder(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
	var order order
	if err := json.Unmarshal(event.Envelope.Body, &order); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO `+tables.Name("customer_totals")+` AS totals (customer, orders, amount) VALUES ($1, 1, $2)
		ON CONFLICT (customer) DO UPDATE SET orders = totals.orders + 1, amount = totals.amount + excluded.amount`, order.Customer, order.Amount)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO "+tables.Name("customer_log")+" VALUES ($1)", event.EventID)
	}
	return err
}

func newProjection(t testing.TB, cfg projection.Config) *projection.Projection {
	t.Helper()
	p, err := projection.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs a function until the test ends or stop is called, which returns its error.
func start(t testing.TB, run func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var err error
	isStopped := false
	stop = func() error {
		if !isStopped {
			cancel()
			err, isStopped = <-ended, true
		}
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// read returns the totals, and whether each event was handled once.
func read(ctx context.Context, db *sql.DB) (map[string]total, error) {
	totals := map[string]total{}
	rows, err := db.QueryContext(ctx, "SELECT customer, orders, amount FROM customer_totals")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var customer string
		var sum total
		if err := rows.Scan(&customer, &sum.Orders, &sum.Amount); err != nil {
			return nil, err
		}
		totals[customer] = sum
	}
	return totals, rows.Err()
}

// await waits until the totals are those of all orders.
func (o *orders) await(t testing.TB, db *sql.DB) {
	t.Helper()
	var totals map[string]total
	eventually(t, func() (err error) {
		if totals, err = read(t.Context(), db); err == nil && !maps.Equal(totals, o.totals) {
			err = fmt.Errorf("the totals are %v, want %v", totals, o.totals)
		}
		return err
	})
	var rows, events int64
	err := db.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT event_id) FROM customer_log").Scan(&rows, &events)
	if err != nil || rows != events {
		t.Errorf("%d events were handled %d times: %v", events, rows, err)
	}
}

// eventually waits until a function returns no error.
func eventually(t testing.TB, try func() error) {
	t.Helper()
	var err error
	if !rabbittest.Poll(rabbittest.Timeout, func() bool { err = try(); return err == nil }) {
		t.Fatal(err)
	}
}

// generations returns the generations of the projection.
func generations(t testing.TB, p *projection.Projection) []projection.Generation {
	t.Helper()
	all, err := p.Generations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// scalar returns the only value of a query.
func scalar[T any](t testing.TB, db *sql.DB, query string) (value T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestMain runs a command of the projection of another process, if it is one.
func TestMain(m *testing.M) {
	if os.Getenv("WATERSHIP_TEST_COMMAND") == "" {
		os.Exit(m.Run())
	}
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command() error {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Config{Path: os.Getenv("WATERSHIP_TEST_EVENTS")})
	if err != nil {
		return err
	}
	db, err := sql.Open(os.Getenv("WATERSHIP_TEST_DRIVER"), os.Getenv("WATERSHIP_TEST_ADDRESS"))
	if err != nil {
		return err
	}
	o := orders{store: store}
	cfg := o.config(db)
	cfg.BatchEvents, cfg.Lease = 50, 300*time.Millisecond
	p, err := projection.New(cfg)
	if err != nil {
		return err
	}
	err = p.Main(ctx, []string{os.Getenv("WATERSHIP_TEST_COMMAND")}, os.Stdout)
	return errors.Join(err, db.Close(), store.Close())
}

var _ = databasetest.Run
