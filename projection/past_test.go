package projection_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/projection"
)

// The tables of a time are computed beside those that are read, which go on, and are neither switched over to nor
// rolled back to.
func TestUpTo(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, first, second := rebuilt(t, db)
		past, err := first.UpTo(t.Context(), time.UnixMicro(12*hour))
		if err != nil || past.State != projection.Past || past.Events != 11 || !past.UpTo.Equal(time.UnixMicro(12*hour)) {
			t.Fatalf("%+v, %v", past, err)
		}
		log := past.Tables().Name("customer_log")
		count := func(want int) {
			t.Helper()
			if n := scalar[int](t, db.DB, "SELECT COUNT(*) FROM "+log); n != want {
				t.Errorf("the tables of the past have %d orders, want %d", n, want)
			}
		}
		count(11)
		start(t, first.Run)
		o.add(t, 5)
		o.await(t, db.DB)
		count(11)
		if again, err := first.UpTo(t.Context(), past.UpTo); err != nil || again.Number != past.Number || again.Events != 11 {
			t.Errorf("again: %+v, %v", again, err)
		}
		if later, err := first.UpTo(t.Context(), time.UnixMicro(20*hour)); err != nil || later.Number == past.Number || later.Events != 19 {
			t.Errorf("at another time: %+v, %v", later, err)
		}
		if _, err := second.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantOrders(t, db, 25)
		if g, err := second.Rollback(t.Context()); err != nil || g.Number != 1 {
			t.Errorf("the rollback returned %+v, %v", g, err)
		}
		other, err := second.UpTo(t.Context(), past.UpTo) // the tables of another version are made again
		if err != nil || other.Version != 2 || other.Events != 11 {
			t.Errorf("%+v, %v", other, err)
		}
		if err := second.Drop(t.Context(), other.Number); err != nil {
			t.Error(err)
		}
		if _, err := db.ExecContext(t.Context(), "SELECT 1 FROM "+log); err == nil {
			t.Error("the dropped tables are still there")
		}
	})
}

// A time of which the first events were removed, or that is to come, is refused.
func TestUpToIsRefused(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, first, _ := rebuilt(t, db)
		if _, err := first.UpTo(t.Context(), time.Now().Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "in the future") {
			t.Error(err)
		}
		o.retain(t, 12)
		if _, err := first.UpTo(t.Context(), time.UnixMicro(15*hour)); !errors.Is(err, projection.ErrFewer) || !strings.Contains(err.Error(), "generation 1 begins in 1970-01-01T01:00:00Z") {
			t.Error(err)
		}
		if g := generations(t, first); len(g) != 1 {
			t.Errorf("%+v", g)
		}
	})
}

func TestUpToCommand(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		_, first, _ := rebuilt(t, db)
		var out bytes.Buffer
		if err := first.Main(t.Context(), []string{"up-to", "1970-01-01T12:00:00Z"}, &out); err != nil ||
			out.String() != "generation 2 has 11 events before 1970-01-01T12:00:00Z, in customer_totals_g2, customer_log_g2; drop 2 drops it\n" {
			t.Errorf("%s, %v", &out, err)
		}
		if err := first.Main(t.Context(), []string{"up-to", "noon"}, &out); err == nil || !strings.Contains(err.Error(), "is no time") {
			t.Error(err)
		}
	})
}
