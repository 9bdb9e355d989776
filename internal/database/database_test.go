package database_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

func newLease(t *testing.T, db *sql.DB, duration time.Duration) *database.Lease {
	t.Helper()
	dialect, err := database.DialectOf(t.Context(), db)
	if err == nil {
		err = database.Create(t.Context(), db, "watership_lease", database.LeaseTable)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &database.Lease{DB: db, Dialect: dialect, Name: "work", Duration: duration}
}

func acquire(t *testing.T, l *database.Lease, want bool) {
	t.Helper()
	if held, err := l.TryAcquire(t.Context()); err != nil || held != want {
		t.Fatalf("acquired: %t, %v; want %t", held, err, want)
	}
}

func fence(t *testing.T, l *database.Lease) error {
	t.Helper()
	return database.InTx(t.Context(), l.DB, func(tx *sql.Tx) error { return l.Fence(t.Context(), tx) })
}

func TestLeaseIsOfOneHolder(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		first, second := newLease(t, db.DB, time.Minute), newLease(t, db.DB, time.Minute)
		acquire(t, first, true)
		acquire(t, second, false)
		if err := fence(t, first); err != nil {
			t.Error(err)
		}
		first.Release(t.Context())
		acquire(t, second, true)
		defer second.Release(t.Context())
		if err := fence(t, first); !errors.Is(err, database.ErrLeaseLost) {
			t.Errorf("the former holder gets %v", err)
		}
	})
}

// A holder that lives renews its lease again and again; one that does not loses it. The lease is long, so
// that a busy machine leaves no renewal out.
func TestLeaseExpires(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		t.Parallel() // most of it is waiting
		first, second := newLease(t, db.DB, 15*time.Second), newLease(t, db.DB, 15*time.Second)
		acquire(t, first, true)
		defer first.Release(t.Context())
		for range 2 {
			before := expires(t, db.DB)
			rabbittest.Eventually(t, "the lease is renewed", func() bool {
				acquire(t, second, false)
				return expires(t, db.DB) > before
			})
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE watership_lease SET expires = 1, holder = 'dead'"); err != nil {
			t.Fatal(err)
		}
		acquire(t, second, true)
		defer second.Release(t.Context())
		if err := fence(t, first); !errors.Is(err, database.ErrLeaseLost) {
			t.Errorf("the former holder gets %v", err)
		}
	})
}

// expires returns the time of the database at which the lease would end.
func expires(t *testing.T, db *sql.DB) (at int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT expires FROM watership_lease").Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

// A holder learns that it has lost the lease from its renewal, and from a check.
func TestLeaseIsLost(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		lease, lost := newLease(t, db.DB, 3*time.Second), make(chan error, 100)
		lease.Lost = func(err error) { lost <- err }
		acquire(t, lease, true)
		defer lease.Release(t.Context())
		if err := lease.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := db.ExecContext(t.Context(), "DELETE FROM watership_lease"); err != nil {
			t.Fatal(err)
		}
		if err := lease.Check(t.Context()); !errors.Is(err, database.ErrLeaseLost) {
			t.Errorf("the check says %v", err)
		}
		if err := <-lost; !errors.Is(err, database.ErrLeaseLost) {
			t.Errorf("the renewal says %v", err)
		}
		acquire(t, newLease(t, db.DB, time.Minute), true)
		if err := lease.Check(t.Context()); !errors.Is(err, database.ErrLeaseLost) {
			t.Errorf("the check says %v", err)
		}
	})
}

func TestInTxRollsBack(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		failed := errors.New("no stock")
		err := database.InTx(t.Context(), db.DB, func(tx *sql.Tx) error {
			return errors.Join(database.Exec(t.Context(), tx, "CREATE TABLE orders (id BIGINT)"), failed)
		})
		if !errors.Is(err, failed) {
			t.Errorf("got %v", err)
		}
		if _, err := db.ExecContext(t.Context(), "SELECT id FROM orders"); err == nil {
			t.Error("the table is there")
		}
	})
}
