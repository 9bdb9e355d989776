package projection_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/subscription"
)

const hour = int64(time.Hour / time.Microsecond)

// rebuilt returns a projection of 20 orders, an hour apart, and the same one of another version.
func rebuilt(t *testing.T, db databasetest.Database) (o *orders, first, second *projection.Projection) {
	t.Helper()
	o = newOrders(t)
	o.step = hour
	o.add(t, 20)
	first = newProjection(t, o.config(db.DB))
	if _, err := first.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := o.config(db.DB)
	cfg.Version = 2
	return o, first, newProjection(t, cfg)
}

// wantOrders checks the number of orders in the tables that are read.
func wantOrders(t *testing.T, db databasetest.Database, want int) {
	t.Helper()
	if n := scalar[int](t, db.DB, "SELECT COUNT(*) FROM customer_log"); n != want {
		t.Errorf("the tables that are read have %d orders, want %d", n, want)
	}
}

// A rebuild after a retention does not replace full tables by emptier ones.
func TestARebuildOfFewerEventsIsRefused(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, _, second := rebuilt(t, db)
		o.retain(t, 12)
		if g, err := second.Rebuild(t.Context()); !errors.Is(err, projection.ErrFewer) || !strings.Contains(err.Error(), "generation 2 has 8, and generation 1, which is read, has 20") {
			t.Fatalf("the rebuild returned %+v, %v", g, err)
		}
		wantOrders(t, db, 20)
		if g := generations(t, second); len(g) != 2 || g[0].State != projection.Live || g[1].State != projection.Building || !strings.Contains(g[1].Failure, "fewer events") {
			t.Errorf("the generations are %+v", g)
		}
		if g, err := second.Rebuild(t.Context(), projection.Fewer); err != nil || g.Number != 2 || g.Events != 8 {
			t.Fatalf("the rebuild returned %+v, %v", g, err)
		}
		wantOrders(t, db, 8)
	})
}

// New events do not hide that the beginning is gone.
func TestARebuildWithoutTheBeginningIsRefused(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, _, second := rebuilt(t, db)
		o.retain(t, 12)
		o.add(t, 30)
		if g, err := second.Rebuild(t.Context()); !errors.Is(err, projection.ErrFewer) || !strings.Contains(err.Error(), "generation 1 begins in 1970-01-01T01:00:00Z, and the oldest event in the store is of 1970-01-01T13:00:00Z") {
			t.Fatalf("the rebuild returned %+v, %v", g, err)
		}
		wantOrders(t, db, 20)
	})
}

func TestRollback(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, first, second := rebuilt(t, db)
		o.retain(t, 12)
		if _, err := first.Rollback(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no former generation") {
			t.Errorf("a rollback without a rebuild ended with %v", err)
		}
		wantOrders(t, db, 20)
		if _, err := second.Rebuild(t.Context(), projection.Fewer); err != nil {
			t.Fatal(err)
		}
		if g, err := second.Rollback(t.Context()); err != nil || g.Number != 1 || g.Events != 20 {
			t.Fatalf("the rollback returned %+v, %v", g, err)
		}
		wantOrders(t, db, 20)
		start(t, first.Run)
		o.add(t, 5)
		o.await(t, db.DB)
		if err := first.Drop(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "its tables are read") {
			t.Errorf("dropping the tables that are read ended with %v", err)
		}
		if err := first.Drop(t.Context(), 2); err != nil {
			t.Error(err)
		}
		if err := first.Drop(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "there is none") {
			t.Errorf("dropping it again ended with %v", err)
		}
		if _, err := db.ExecContext(t.Context(), "SELECT 1 FROM customer_log_g2"); err == nil {
			t.Error("the dropped tables are still there")
		}
		o.await(t, db.DB)
	})
}

// A rebuild goes on with its tables only if they are of the same query.
func TestARebuildOfAnotherQueryIsDiscarded(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, _, _ := rebuilt(t, db)
		cfg := o.config(db.DB)
		cfg.Reader.Query = kql.FieldIs("event.id", "shop-7")
		if _, err := newProjection(t, cfg).Rebuild(t.Context()); !errors.Is(err, projection.ErrFewer) {
			t.Fatalf("the rebuild ended with %v", err)
		}
		p := newProjection(t, o.config(db.DB))
		if g, err := p.Rebuild(t.Context()); err != nil || g.Events != 20 {
			t.Fatalf("the rebuild returned %+v, %v", g, err)
		}
		o.await(t, db.DB)
	})
}

func TestAnUnknownSource(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, first, _ := rebuilt(t, db)
		cfg := o.config(db.DB)
		cfg.Reader.Source = "shopp"
		p := newProjection(t, cfg)
		if _, err := p.Rebuild(t.Context()); err == nil || !strings.Contains(err.Error(), `no event of source "shopp"`) {
			t.Errorf("the rebuild ended with %v", err)
		}
		if g := generations(t, first); len(g) != 1 {
			t.Errorf("the generations are %+v", g)
		}
	})
}

// Tables of a version without the columns of this one get them.
func TestTablesOfAFormerVersion(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 10)
		if _, err := newProjection(t, o.config(db.DB)).Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, column := range []string{"first_sequence", "reads", "attempts", "accepted"} {
			if _, err := db.ExecContext(t.Context(), "ALTER TABLE watership_projection DROP COLUMN "+column); err != nil {
				t.Fatal(err)
			}
		}
		p := newProjection(t, o.config(db.DB))
		start(t, p.Run)
		o.add(t, 10)
		o.await(t, db.DB)
		if _, err := p.Rebuild(t.Context()); err != nil {
			t.Error(err)
		}
		o.await(t, db.DB)
		if g := generations(t, p); len(g) != 2 || g[1].First != 1 || g[0].First != 0 {
			t.Errorf("the generations are %+v", g)
		}
	})
}

// Processes add the columns at once.
func TestTwoProcessesWithTablesOfAFormerVersion(t *testing.T) {
	db := databasetest.PostgreSQL(t)
	o := newOrders(t)
	o.add(t, 10)
	if _, err := newProjection(t, o.config(db.DB)).Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "ALTER TABLE watership_projection DROP COLUMN reads"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range 4 {
		p := newProjection(t, o.config(db.DB))
		go func() {
			all, err := p.Generations(context.Background())
			if err == nil && len(all) != 1 {
				err = fmt.Errorf("the generations are %+v", all)
			}
			ended <- err
		}()
	}
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A projection that retention overtakes ends with the reason, until its operator accepts that.
func TestAProjectionThatRetentionOvertakes(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, first, _ := rebuilt(t, db)
		o.add(t, 10)
		o.retain(t, 25)
		var removed *subscription.RemovedError
		if err := first.Run(t.Context()); !errors.As(err, &removed) || removed.UpTo != 25*hour {
			t.Fatalf("it ended with %v", err)
		}
		if g := generations(t, first); g[0].Events != 20 || !strings.Contains(g[0].Failure, "were removed by retention") {
			t.Errorf("the generations are %+v", g)
		}
		if err := first.Main(t.Context(), []string{"skip-removed"}, &strings.Builder{}); err != nil {
			t.Fatal(err)
		}
		start(t, first.Run)
		eventually(t, func() error {
			if g := generations(t, first); g[0].Events != 25 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		o.retain(t, 29)
		later := newProjection(t, o.config(db.DB))
		if _, err := later.Rebuild(t.Context(), projection.Fewer); err != nil {
			t.Error(err)
		}
	})
}
