package outbox

import (
	"context"
	"fmt"
	"strings"
)

// beginning is where a session reads the messages that were not published before. PostgreSQL keeps deleted rows in the
// index until a vacuum, which an old snapshot holds up, and a read of all ids walks over them. The lowest id that is
// seen is no beginning: a transaction that has a lower one may commit later, and before another one begins whose
// messages have to follow. So it moves up to an id only once all transactions have ended that were open when a
// higher one was given out.
type beginning struct {
	id      int64           // messages below it were published before, or rolled back
	settled int64           // no transaction that is open has this id or a lower one
	next    int64           // is settled as soon as open have ended
	open    map[string]bool // transactions
	reads   int
}

const (
	settleReads = 10  // between two looks at the open transactions
	allReads    = 600 // between two reads of all ids, since other programs may restart the sequence or set ids
)

// condition returns the condition of the rows that are read.
func (b *beginning) condition() string {
	return fmt.Sprintf("attempts = 0 AND id >= %d ORDER BY id", b.id)
}

// pass moves up to the first of the rows that were read, or beyond all that are settled.
func (b *beginning) pass(rows []row) {
	first := b.settled + 1
	if len(rows) > 0 {
		first = min(first, rows[0].id)
	}
	b.id = max(b.id, first)
}

// settle looks for transactions that have ended. SQLite deletes rows at once, and has one writer.
func (s *session) settle(ctx context.Context) error {
	b := &s.beginning
	if !s.dialect.IsPostgreSQL {
		return nil
	}
	if b.reads++; b.reads%allReads == 0 {
		b.id = 0
	}
	if b.reads%settleReads != 1 {
		return nil
	}
	given, err := s.lastID(ctx)
	if err != nil {
		return err
	}
	open, err := s.openTransactions(ctx)
	if err != nil {
		return err
	}
	for transaction := range open {
		if b.open[transaction] || strings.HasPrefix(transaction, prepared) {
			return nil
		}
	}
	b.settled, b.next, b.open = b.next, given, open
	return nil
}

// lastID returns the highest id that was given out; zero if the login may not see it.
func (s *session) lastID(ctx context.Context) (id int64, err error) {
	const query = `SELECT coalesce(max(pg_sequence_last_value(ids)), 0)
		FROM (SELECT CAST(pg_get_serial_sequence('watership_outbox', 'id') AS regclass) AS ids) AS sequence
		WHERE has_sequence_privilege(ids, 'SELECT, USAGE')`
	if err := s.cfg.DB.QueryRowContext(ctx, query).Scan(&id); err != nil {
		return 0, fmt.Errorf("reading the last id of the outbox: %w", err)
	}
	return id, nil
}

// prepared begins the names of transactions that wait for the second phase of their commit, and had other names before.
const prepared = "-1/"

// openTransactions returns the transactions that may add messages with ids that were given out before: each has
// locked the table for that until its end.
func (s *session) openTransactions(ctx context.Context) (open map[string]bool, err error) {
	const query = `SELECT DISTINCT virtualtransaction FROM pg_locks
		WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND relation = CAST('watership_outbox' AS regclass) AND mode = 'RowExclusiveLock' AND granted`
	rows, err := s.cfg.DB.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("reading the transactions that write to the outbox: %w", err)
	}
	defer rows.Close()
	open = map[string]bool{}
	for rows.Next() {
		var transaction string
		if err := rows.Scan(&transaction); err != nil {
			return nil, fmt.Errorf("reading the transactions that write to the outbox: %w", err)
		}
		open[transaction] = true
	}
	return open, rows.Err()
}
