package database

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLeaseLost: another process holds the lease now.
var ErrLeaseLost = errors.New("another process holds the lease")

// DefaultLease is the time after which another process takes over a lease that its holder
// does not renew.
const DefaultLease = 10 * time.Second

// LeaseTable creates the table of leases.
const LeaseTable = `CREATE TABLE IF NOT EXISTS watership_lease (
	name TEXT PRIMARY KEY, holder TEXT NOT NULL, expires BIGINT NOT NULL)`

// Lease lets one process at a time do a piece of work. Times are of the database, so the
// clocks of processes do not matter. A process that was suspended may believe that it holds
// a lease which another has taken over; a transaction that begins with Fence is safe.
type Lease struct {
	DB       *sql.DB
	Dialect  Dialect
	Name     string
	Duration time.Duration

	// Lost is called with ErrLeaseLost if the renewal notices it. Nil: nothing is.
	Lost func(error)

	holder string
	stop   context.CancelFunc // ends the renewal
	work   sync.WaitGroup     // the renewal
}

// TryAcquire reports whether it got the lease, which it then renews until Release.
func (l *Lease) TryAcquire(ctx context.Context) (bool, error) {
	holder := rand.Text()
	result, err := l.DB.ExecContext(ctx, `INSERT INTO watership_lease (name, holder, expires)
		VALUES ($1, $2, `+l.Dialect.Now+` + $3)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires
		WHERE watership_lease.expires < `+l.Dialect.Now, l.Name, holder, l.Duration.Microseconds())
	if err != nil {
		return false, fmt.Errorf("acquiring the lease of %s: %w", l.Name, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	l.holder = holder
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.work.Go(func() { l.renew(ctx) })
	return true, nil
}

// renew prolongs the lease. If it cannot, the next transaction or the next holder decides.
func (l *Lease) renew(ctx context.Context) {
	ticker := time.NewTicker(l.Duration / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := l.prolong(ctx, l.DB); errors.Is(err, ErrLeaseLost) && l.Lost != nil {
				l.Lost(err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// Fence fails with ErrLeaseLost unless the lease is held, and keeps others from taking it
// over until the transaction ends. It is the first statement of a transaction: SQLite then
// waits for other writers.
func (l *Lease) Fence(ctx context.Context, tx *sql.Tx) error { return l.prolong(ctx, tx) }

// executor is a database or a transaction.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (l *Lease) prolong(ctx context.Context, in executor) error {
	result, err := in.ExecContext(ctx, "UPDATE watership_lease SET expires = "+l.Dialect.Now+" + $1 WHERE name = $2 AND holder = $3",
		l.Duration.Microseconds(), l.Name, l.holder)
	if err != nil {
		return fmt.Errorf("checking the lease of %s: %w", l.Name, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(l.lost(), err)
	}
	return nil
}

// Check fails with ErrLeaseLost unless the lease is held. Another process may take it over afterwards.
func (l *Lease) Check(ctx context.Context) error {
	var holder string
	err := l.DB.QueryRowContext(ctx, "SELECT holder FROM watership_lease WHERE name = $1", l.Name).Scan(&holder)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && holder != l.holder:
		return l.lost()
	case err != nil:
		return fmt.Errorf("checking the lease of %s: %w", l.Name, err)
	}
	return nil
}

func (l *Lease) lost() error { return fmt.Errorf("%s: %w", l.Name, ErrLeaseLost) }

// releaseTimeout limits the last statement of a process whose context has ended.
const releaseTimeout = 2 * time.Second

// Release gives the lease to the next process.
func (l *Lease) Release(ctx context.Context) {
	l.stop()
	l.work.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	// Without an answer of the database the lease expires.
	_, _ = l.DB.ExecContext(ctx, "DELETE FROM watership_lease WHERE name = $1 AND holder = $2", l.Name, l.holder)
}
