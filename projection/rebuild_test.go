package projection_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/schemas"
)

// While a rebuild fills its tables, another process keeps those that are read, and readers
// see orders appear only.
func TestRebuildBesideALiveProcess(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 2000)
		live := newProjection(t, o.config(db.DB))
		start(t, live.Run)
		o.await(t, db.DB)
		var rebuilt atomic.Int64
		cfg := o.config(db.DB)
		cfg.BatchEvents = 100
		cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
			rebuilt.Add(1)
			return addOrder(ctx, tx, tables, event)
		}
		rebuild := newProjection(t, cfg)
		ended := make(chan error, 1)
		var g projection.Generation
		go func() {
			var err error
			g, err = rebuild.Rebuild(t.Context())
			ended <- err
		}()
		highest, next := int64(2000), int64(0)
		for isRunning := true; isRunning; {
			if n := rebuilt.Load(); n >= next { // so that fewer events come than the rebuild handles
				o.add(t, 7)
				next = n + 14
			}
			if sum := scalar[int64](t, db.DB, "SELECT COALESCE(SUM(orders), 0) FROM customer_totals"); sum < highest {
				t.Fatalf("a reader saw %d orders, then %d", highest, sum)
			} else {
				highest = sum
			}
			select {
			case err := <-ended:
				if isRunning = false; err != nil {
					t.Fatal(err)
				}
			case <-time.After(20 * time.Millisecond):
			}
		}
		if rebuilt.Load() < 2000 || g.Number != 2 || g.State != projection.Live || g.Events < 2000 {
			t.Errorf("the rebuild handled %d events and returned %+v", rebuilt.Load(), g)
		}
		o.add(t, 100)
		o.await(t, db.DB)
		if all := generations(t, live); len(all) != 2 || all[0].State != projection.Retired || all[1].Number != 2 || all[1].Events != o.n {
			t.Errorf("the generations are %+v", all)
		}
		if n := scalar[int64](t, db.DB, "SELECT COUNT(*) FROM customer_log_g1"); n < 2000 {
			t.Errorf("the tables of the former generation have %d orders", n)
		}
	})
}

func TestRebuildWithoutALiveProcess(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 300)
		p := newProjection(t, o.config(db.DB))
		for n := int64(1); n <= 3; n++ {
			if g, err := p.Rebuild(t.Context()); err != nil || g.Number != n || g.Events != 300 {
				t.Fatalf("%+v, %v", g, err)
			}
			o.await(t, db.DB)
		}
	})
}

func TestAnInterruptedRebuildIsContinued(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		var handled, calls atomic.Int64
		cfg := o.config(db.DB)
		cfg.BatchEvents, cfg.BatchTime = 100, time.Hour
		cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
			if calls.Add(1); handled.Add(1) == 550 {
				cancel()
			}
			return addOrder(ctx, tx, tables, event)
		}
		p := newProjection(t, cfg)
		if _, err := p.Rebuild(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("it ended with %v", err)
		}
		if g := generations(t, p); len(g) != 1 || g[0].State != projection.Building || g[0].Events != 500 {
			t.Fatalf("the generations are %+v", g)
		}
		g, err := p.Rebuild(t.Context())
		if err != nil || g.Events != 1000 || calls.Load() > 1100 {
			t.Fatalf("%+v, %v, after %d calls", g, err, calls.Load())
		}
		o.await(t, db.DB)
	})
}

func TestTwoRebuildsAtOnce(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 1000)
		ended := make(chan error, 2)
		for range 2 {
			p := newProjection(t, o.config(db.DB))
			go func() {
				g, err := p.Rebuild(t.Context())
				if err == nil && g.Events != 1000 {
					err = fmt.Errorf("it returned %+v", g)
				}
				ended <- err
			}()
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		o.await(t, db.DB)
	})
}

// ofVersion2 has another column, and another table instead of the log.
func ofVersion2(cfg projection.Config) projection.Config {
	cfg.Version, cfg.Tables = 2, []string{"customer_totals", "customer_highest"}
	cfg.Create = func(ctx context.Context, tx *sql.Tx, tables projection.Tables) error {
		for _, statement := range []string{
			"CREATE TABLE " + tables.Name("customer_totals") + " (name TEXT PRIMARY KEY, customer TEXT, orders BIGINT NOT NULL)",
			"CREATE TABLE " + tables.Name("customer_highest") + " (amount BIGINT)",
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
	cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO "+tables.Name("customer_totals")+" VALUES ($1, 'c', 1)", event.EventID)
		return err
	}
	return cfg
}

func TestVersions(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 100)
		old, later := newProjection(t, o.config(db.DB)), newProjection(t, ofVersion2(o.config(db.DB)))
		ended := make(chan error, 1)
		go func() { ended <- old.Run(t.Context()) }()
		o.await(t, db.DB)
		start(t, later.Run) // waits for the rebuild
		o.add(t, 100)
		o.await(t, db.DB)
		if g, err := later.Rebuild(t.Context()); err != nil || g.Version != 2 {
			t.Fatalf("%+v, %v", g, err)
		}
		o.add(t, 100)
		if err := <-ended; !errors.Is(err, projection.ErrSuperseded) {
			t.Errorf("the old version ended with %v", err)
		}
		eventually(t, func() error {
			if n := scalar[int](t, db.DB, "SELECT COUNT(name) FROM customer_totals"); n != 300 {
				return fmt.Errorf("the new version has %d events", n)
			}
			return nil
		})
		if _, err := db.ExecContext(t.Context(), "SELECT 1 FROM customer_log"); err == nil {
			t.Error("the view of a former table is still there")
		}
		if _, err := old.Rebuild(t.Context()); !errors.Is(err, projection.ErrSuperseded) {
			t.Errorf("a rebuild by the old version ended with %v", err)
		}
	})
}

// A program whose version was never switched over leaves nothing behind.
func TestARebuildOfAnotherVersionIsDiscarded(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 100)
		start(t, newProjection(t, o.config(db.DB)).Run)
		o.await(t, db.DB)
		cfg := ofVersion2(o.config(db.DB))
		cfg.Policy = fast
		cfg.Handle = func(context.Context, *sql.Tx, projection.Tables, schemas.Event) error {
			return errors.New("not written yet")
		}
		if _, err := newProjection(t, cfg).Rebuild(t.Context()); err == nil || !strings.Contains(err.Error(), "not written yet") {
			t.Fatalf("it ended with %v", err)
		}
		o.await(t, db.DB)
		cfg = o.config(db.DB)
		cfg.Version = 3
		if g, err := newProjection(t, cfg).Rebuild(t.Context()); err != nil || g.Version != 3 {
			t.Fatalf("%+v, %v", g, err)
		}
		o.await(t, db.DB)
		if _, err := db.ExecContext(t.Context(), "SELECT 1 FROM customer_highest_g2"); err == nil {
			t.Error("the tables of the other version are still there")
		}
	})
}

// A reader in a long transaction delays the switch-over, not other readers for long.
func TestALongReaderDelaysTheSwitchOver(t *testing.T) {
	db := databasetest.PostgreSQL(t)
	o := newOrders(t)
	o.add(t, 100)
	start(t, newProjection(t, o.config(db.DB)).Run)
	o.await(t, db.DB)
	reader, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM customer_totals").Scan(&n); err != nil {
		t.Fatal(err)
	}
	p := newProjection(t, o.config(db.DB))
	ended := make(chan error, 1)
	go func() {
		_, err := p.Rebuild(t.Context())
		ended <- err
	}()
	eventually(t, func() error {
		if g := generations(t, p); len(g) < 2 || !strings.Contains(g[1].Failure, "lock timeout") {
			return fmt.Errorf("the generations are %+v", g)
		}
		return nil
	})
	begun := time.Now()
	o.await(t, db.DB)
	if waited := time.Since(begun); waited > 30*time.Second { // far more than the 2 s of the lock timeout
		t.Errorf("another reader waited %v", waited)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	o.await(t, db.DB)
}

// Privileges of a view outlive the switch-over.
func TestPrivilegesOfViews(t *testing.T) {
	db := databasetest.PostgreSQL(t)
	o := newOrders(t)
	o.add(t, 10)
	p := newProjection(t, o.config(db.DB))
	for range 2 {
		if _, err := p.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "GRANT SELECT ON customer_totals TO PUBLIC"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := scalar[int](t, db.DB, "SELECT COUNT(*) FROM information_schema.role_table_grants WHERE table_name = 'customer_totals' AND grantee = 'PUBLIC' AND table_schema = current_schema()")
	if n != 1 {
		t.Errorf("the view has %d privileges of PUBLIC", n)
	}
}

func TestMainCommands(t *testing.T) {
	db := databasetest.SQLite(t)
	o := newOrders(t)
	o.add(t, 3)
	p := newProjection(t, o.config(db.DB))
	out := func(args ...string) string {
		t.Helper()
		var text strings.Builder
		if err := p.Main(t.Context(), args, &text); err != nil {
			fmt.Fprintln(&text, err)
		}
		return text.String()
	}
	if text := out("rebuild"); text != "generation 1 is read now: 3 events, version 1\n" {
		t.Errorf("rebuild printed %q", text)
	}
	if text := out("status"); !strings.Contains(text, "1           live   1        3       0       4 ") {
		t.Errorf("status printed %q", text)
	}
	if text := out("parked"); text != "GENERATION  EVENT  POSITION  TIME  FAILURE\n" {
		t.Errorf("parked printed %q", text)
	}
	for want, args := range map[string][]string{`there is no command "help"`: {"help"}, "run has no arguments": {"run", "x"}} {
		if text := out(args...); !strings.Contains(text, want) {
			t.Errorf("%v printed %q", args, text)
		}
	}
	run := func(ctx context.Context) error { return p.Main(ctx, nil, &strings.Builder{}) }
	stop := start(t, run)
	o.add(t, 3)
	o.await(t, db.DB)
	if err := stop(); err != nil {
		t.Error(err)
	}
}
