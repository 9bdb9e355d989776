package projection_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

func TestStoredAndNewEvents(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 1234)
		p := newProjection(t, o.config(db.DB))
		stop := start(t, p.Run)
		o.await(t, db.DB)
		o.add(t, 3)
		o.await(t, db.DB)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		g := generations(t, p)
		if len(g) != 1 || g[0].State != projection.Live || g[0].Events != 1237 || g[0].Version != 1 || g[0].Failure != "" || g[0].Position.Sequence != 1238 {
			t.Errorf("the generations are %+v", g)
		}
		o.add(t, 5)
		start(t, newProjection(t, o.config(db.DB)).Run)
		o.await(t, db.DB)
	})
}

func TestOnlyEventsOfTheQuery(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 20)
		cfg := o.config(db.DB)
		cfg.Reader.Query = kql.FieldIs("event.id", "shop-7")
		p := newProjection(t, cfg)
		start(t, p.Run)
		// The position of a projection without further events follows.
		eventually(t, func() error {
			if g := generations(t, p); len(g) == 0 || g[0].Position.Sequence != 21 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		if n := scalar[int](t, db.DB, "SELECT COUNT(*) FROM customer_log"); n != 1 {
			t.Errorf("%d events were handled", n)
		}
	})
}

// failing returns a handler that handles an event and then fails, a number of times.
func failing(id string, times int64, err error) (func(context.Context, *sql.Tx, projection.Tables, schemas.Event) error, *atomic.Int64) {
	var failures atomic.Int64
	return func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
		if err := addOrder(ctx, tx, tables, event); err != nil {
			return err
		}
		if event.EventID == id && failures.Load() < times {
			failures.Add(1)
			return err
		}
		return nil
	}, &failures
}

var fast = &retry.Policy{First: time.Millisecond, Attempts: 4}

func TestAFailureHasNoEffect(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 100)
		cfg := o.config(db.DB)
		var failures *atomic.Int64
		cfg.Policy = fast
		cfg.Handle, failures = failing("shop-50", 4, errors.New("no such product"))
		start(t, newProjection(t, cfg).Run)
		o.await(t, db.DB)
		if failures.Load() != 4 {
			t.Errorf("%d attempts failed", failures.Load())
		}
	})
}

func TestAFailureStopsTheProjection(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 100)
		cfg := o.config(db.DB)
		cfg.Policy = fast
		cfg.Handle, _ = failing("shop-50", 1000, errors.New("no such product"))
		p := newProjection(t, cfg)
		var failed *projection.EventError
		if err := p.Run(t.Context()); !errors.As(err, &failed) || failed.Event.EventID != "shop-50" {
			t.Fatalf("it ended with %v", err)
		}
		g := generations(t, p)
		if len(g) != 1 || g[0].Events != 49 || g[0].Position.Sequence != 49 || g[0].Failure != "no such product" {
			t.Errorf("the generations are %+v", g)
		}
		cfg.Handle = addOrder
		start(t, newProjection(t, cfg).Run)
		o.await(t, db.DB)
		if g := generations(t, p); g[0].Events != 100 || g[0].Failure != "" {
			t.Errorf("the generations are %+v", g)
		}
	})
}

func TestParked(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 100)
		cfg := o.config(db.DB)
		cfg.Park, cfg.Policy = true, fast
		var failures *atomic.Int64
		cfg.Handle, failures = failing("shop-50", 1000, retry.Permanent(errors.New("no such product")))
		p := newProjection(t, cfg)
		start(t, p.Run)
		eventually(t, func() error {
			if g := generations(t, p); len(g) == 0 || g[0].Events != 99 || g[0].Parked != 1 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		parked, err := p.Parked(t.Context())
		if err != nil || len(parked) != 1 || parked[0].Position.EventID != "shop-50" || parked[0].Failure != "no such product" || parked[0].Generation != 1 {
			t.Errorf("parked are %+v, %v", parked, err)
		}
		if n := failures.Load(); n != 2 { // in the batch, and alone
			t.Errorf("a permanent error had %d attempts", n)
		}
		if n := scalar[int](t, db.DB, "SELECT COUNT(*) FROM customer_log"); n != 99 {
			t.Errorf("%d events were handled", n)
		}
	})
}

// Handle sees the events as Upcast returns them. One that Upcast refuses is parked with the reason, and so is
// one at which it panics.
func TestUpcast(t *testing.T) {
	o := newOrders(t)
	o.add(t, 20)
	cfg := o.config(databasetest.SQLite(t).DB)
	cfg.Park, cfg.Policy = true, fast
	handle := cfg.Handle
	cfg.Upcast = func(e schemas.Event) (schemas.Event, error) {
		switch e.EventID {
		case "shop-5":
			return e, errors.New("version 1 has no customer")
		case "shop-6":
			panic("no version")
		}
		if e.Envelope.Body[0] != '{' { // of another attempt
			return e, errors.New("the body has been upcast")
		}
		e.Envelope.Properties.Type, e.Envelope.Body[0] = "v2", '2'
		return e, nil
	}
	cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, e schemas.Event) error {
		if e.Envelope.Properties.Type != "v2" {
			return retry.Permanent(fmt.Errorf("event %s is of type %q", e.EventID, e.Envelope.Properties.Type))
		}
		e.Envelope.Body = append([]byte("{"), e.Envelope.Body[1:]...)
		return handle(ctx, tx, tables, e)
	}
	p := newProjection(t, cfg)
	start(t, p.Run)
	eventually(t, func() error {
		if g := generations(t, p); len(g) == 0 || g[0].Events != 18 || g[0].Parked != 2 {
			return fmt.Errorf("the generations are %+v", g)
		}
		return nil
	})
	parked, err := p.Parked(t.Context())
	if err != nil || len(parked) != 2 || parked[0].Failure != "upcasting: version 1 has no customer" || !strings.HasPrefix(parked[1].Failure, "upcasting: ") || !strings.Contains(parked[1].Failure, "no version") {
		t.Errorf("parked are %+v, %v", parked, err)
	}
}

// unreadable yields a document that is no event after the fifth one.
type unreadable struct{ *sqlite.Store }

func (s unreadable) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for e, err := range s.Store.Events(ctx, selection) {
			if !yield(e, err) || e.EventID == "shop-5" && !yield(schemas.Event{}, errors.New("no event")) {
				return
			}
		}
	}
}

func TestADocumentThatIsNoEvent(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 10)
		cfg := o.config(db.DB)
		cfg.Reader.Store = unreadable{o.store}
		p := newProjection(t, cfg)
		if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no event") {
			t.Errorf("it ended with %v", err)
		}
		cfg.Reader.Store = unreadable{o.store}
		cfg.Version, cfg.Park = 2, true
		p = newProjection(t, cfg)
		if _, err := p.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.await(t, db.DB)
		if parked, err := p.Parked(t.Context()); err != nil || len(parked) != 1 || parked[0].Failure != "no event" || parked[0].Position.Sequence != 5 {
			t.Errorf("parked are %+v, %v", parked, err)
		}
	})
}

// unavailable fails now and then, also in the middle of a reading.
type unavailable struct {
	*sqlite.Store
	reads atomic.Int64
}

func (s *unavailable) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		n := 0
		for e, err := range s.Store.Events(ctx, selection) {
			if n++; n > 7 && s.reads.Add(1) < 20 {
				yield(schemas.Event{}, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "restarting"})
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestStoreUnavailable(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 500)
		cfg := o.config(db.DB)
		cfg.Reader.Store = &unavailable{Store: o.store}
		start(t, newProjection(t, cfg).Run)
		o.await(t, db.DB)
	})
}

func TestOneProcessAtATime(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE handled_by (process BIGINT NOT NULL)"); err != nil {
			t.Fatal(err)
		}
		handled := func(process int) int64 {
			return scalar[int64](t, db.DB, fmt.Sprint("SELECT COUNT(*) FROM handled_by WHERE process = ", process))
		}
		var stops [2]func() error
		for i := range stops {
			cfg := o.config(db.DB)
			cfg.Lease = 30 * time.Second // which a process on a busy machine does not lose
			cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
				// A row of a transaction that is tried again is there once.
				if _, err := tx.ExecContext(ctx, "INSERT INTO handled_by VALUES ($1)", i); err != nil {
					return err
				}
				return addOrder(ctx, tx, tables, event)
			}
			stops[i] = start(t, newProjection(t, cfg).Run)
		}
		for range 30 {
			o.add(t, 10)
			o.await(t, db.DB)
		}
		first := 0
		if handled(1) > 0 {
			first = 1
		}
		if handled(first) != 300 || handled(1-first) != 0 {
			t.Errorf("the processes handled %d and %d events", handled(0), handled(1))
		}
		if err := stops[first](); err != nil {
			t.Error(err)
		}
		o.add(t, 10)
		o.await(t, db.DB)
		if n := handled(1 - first); n != 10 {
			t.Errorf("the other process handled %d events", n)
		}
	})
}

// A process that was suspended for longer than its lease is stopped at the checkpoint.
func TestAProcessWithoutItsLeaseCannotCommit(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 10)
		p := newProjection(t, o.config(db.DB))
		start(t, p.Run)
		o.await(t, db.DB)
		if _, err := db.ExecContext(t.Context(), "UPDATE watership_lease SET holder = 'another', expires = 4000000000000000"); err != nil {
			t.Fatal(err)
		}
		o.add(t, 10)
		for range 20 {
			time.Sleep(10 * time.Millisecond)
			if n := scalar[int](t, db.DB, "SELECT COUNT(*) FROM customer_log"); n != 10 {
				t.Fatalf("%d events were handled", n)
			}
		}
		if _, err := db.ExecContext(t.Context(), "DELETE FROM watership_lease"); err != nil {
			t.Fatal(err)
		}
		o.await(t, db.DB)
	})
}

// Two transactions cannot save a checkpoint after the same one, even if both had the lease.
func TestACheckpointIsComparedAndSet(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 10)
		p := newProjection(t, o.config(db.DB))
		start(t, p.Run)
		o.await(t, db.DB)
		// As another process would have done with the next events, and their rows.
		_, err := db.ExecContext(t.Context(), "UPDATE watership_projection SET revision = revision + 1, sequence = 15, event_id = 'shop-15'")
		if err != nil {
			t.Fatal(err)
		}
		o.add(t, 10)
		eventually(t, func() error {
			if g := generations(t, p); g[0].Events != 15 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		var ids []string
		rows, err := db.QueryContext(t.Context(), "SELECT event_id FROM customer_log WHERE event_id >= 'shop-11' AND event_id <= 'shop-19'")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if slices.Sort(ids); !slices.Equal(ids, []string{"shop-16", "shop-17", "shop-18", "shop-19"}) {
			t.Errorf("the handled events are %v", ids)
		}
	})
}

func TestConfig(t *testing.T) {
	o := newOrders(t)
	for want, change := range map[string]func(*projection.Config){
		`"Totals" is no name`:      func(c *projection.Config) { c.Name = "Totals" },
		`"a;b" is no name`:         func(c *projection.Config) { c.Tables = []string{"a;b"} },
		"no Tables":                func(c *projection.Config) { c.Tables = nil },
		"the Version is 0":         func(c *projection.Config) { c.Version = 0 },
		"Handle, DB, Reader.Store": func(c *projection.Config) { c.Handle = nil },
		"Reader.Source":            func(c *projection.Config) { c.Reader.Source = "" },
		"Lease is negative":        func(c *projection.Config) { c.BatchTime = -1 },
		"attempts 0":               func(c *projection.Config) { c.Policy = &retry.Policy{First: -1} },
	} {
		cfg := o.config(&sql.DB{})
		change(&cfg)
		if _, err := projection.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSQLiteWithoutABusyTimeout(t *testing.T) {
	db := databasetest.Open(t, "sqlite", "file:"+t.TempDir()+"/a.db")
	p := newProjection(t, newOrders(t).config(db.DB))
	ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Timeout)
	defer cancel()
	if err := p.Run(ctx); err == nil || !strings.Contains(err.Error(), "busy_timeout(10000)") {
		t.Errorf("it ended with %v", err)
	}
}

// While the database does not answer, no attempts are lost.
func TestDatabaseUnavailable(t *testing.T) {
	db := databasetest.PostgreSQL(t)
	proxy := rabbittest.Address{URL: db.Address}.Proxy(t)
	through := databasetest.Open(t, "pgx", proxy.URL)
	o := newOrders(t)
	o.add(t, 100)
	cfg := o.config(through.DB)
	cfg.Policy = fast
	log := &rabbittest.Log{}
	cfg.Logger = log.Logger()
	p := newProjection(t, cfg)
	proxy.Cut()
	stop := start(t, p.Run)
	isTried := func() { // more often than the policy has attempts
		t.Helper()
		before := log.Count("")
		rabbittest.Eventually(t, "attempts without the database", func() bool { return log.Count("") >= before+5 })
	}
	isTried()
	for range 3 {
		proxy.Mend()
		o.await(t, db.DB)
		proxy.Cut()
		o.add(t, 100)
		isTried()
	}
	proxy.Mend()
	o.await(t, db.DB)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A projection that has ended keeps no goroutine.
func TestNoGoroutineStays(t *testing.T) {
	running := func() int {
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "usercode.(*goroutine).run(")
	}
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		before := running() // of handlers that do not return
		o := newOrders(t)
		o.add(t, 5)
		p := newProjection(t, o.config(db.DB))
		stop := start(t, p.Run)
		o.await(t, db.DB)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if n := running(); n > before {
				return fmt.Errorf("%d goroutines for handlers stay, and there were %d", n, before)
			}
			return nil
		})
	})
}
