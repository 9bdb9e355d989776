package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// A transaction removes so much, so that nobody waits long to write, and reads one
// event at a time.
const (
	removedAtOnce = 200      // events
	removedBytes  = 16 << 20 // of documents; one may be larger
)

// Retain removes the events that are older than the retention of their stream,
// by their sequence, and says how many. Whoever keeps events calls it now and
// then, such as every minute. The file does not become smaller: what is free is
// used again.
func (s *Store) Retain(ctx context.Context) (removed int64, err error) {
	now := time.Now()
	for stream, retention := range s.retention {
		for more := retention > 0; more; {
			var n int64
			n, more, err = s.retain(ctx, stream, now.Add(-retention))
			if removed += n; err != nil {
				return removed, err
			}
		}
	}
	if removed > 0 {
		err = s.removeKeys(ctx)
	}
	return removed, err
}

// retain removes some of the oldest events of a stream from before a time, and says
// whether there may be more.
func (s *Store) retain(ctx context.Context, stream schemas.Stream, before time.Time) (removed int64, more bool, err error) {
	err = s.write(ctx, "removing old events", func(tx *sql.Tx) error {
		var old []int64
		if old, more, err = oldest(ctx, tx, stream, before); err != nil || len(old) == 0 {
			return err
		}
		w, err := s.newWriter(ctx, tx)
		if err != nil {
			return err
		}
		for _, n := range old {
			if err := s.remove(ctx, tx, w, n); err != nil {
				return err
			}
		}
		removed = int64(len(old))
		return nil
	})
	return removed, more, err
}

// oldest are events that one transaction removes.
func oldest(ctx context.Context, tx *sql.Tx, stream schemas.Stream, before time.Time) (old []int64, more bool, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT event.n, length(head) + length(body) FROM event JOIN document USING (n)
		WHERE stream = ? AND "event.sequence" < ? ORDER BY "event.sequence" LIMIT ?`, string(stream), before.UnixMicro(), removedAtOnce)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for bytes := 0; rows.Next(); {
		var n int64
		var size int
		if err := rows.Scan(&n, &size); err != nil {
			return nil, false, err
		}
		if bytes += size; bytes > removedBytes && len(old) > 0 {
			return old, true, rows.Close()
		}
		old = append(old, n)
	}
	return old, len(old) == removedAtOnce, rows.Err()
}

// remove takes an event out of all tables. What is under keys is found by reading
// the document again: an index of it by event would be as large as all of it.
func (s *Store) remove(ctx context.Context, tx *sql.Tx, w *writer, n int64) error {
	var found stored
	row := tx.QueryRowContext(ctx, `SELECT "event.id", stream, head, body FROM event JOIN document USING (n) WHERE n = ?`, n)
	if err := row.Scan(&found.id, &found.stream, &found.head, &found.body); err != nil {
		return err
	}
	if err := s.removeTerms(ctx, tx, w, n, found.document()); err != nil {
		return err
	}
	for _, statement := range []string{
		"DELETE FROM text WHERE rowid = ?", "DELETE FROM document WHERE n = ?", "DELETE FROM event WHERE n = ?",
	} {
		if _, err := tx.ExecContext(ctx, statement, n); err != nil {
			return err
		}
	}
	return nil
}

// removeTerms goes through all terms that there are where a document cannot be read
// again: it must go in any case.
func (s *Store) removeTerms(ctx context.Context, tx *sql.Tx, w *writer, n int64, doc schemas.Document) error {
	e, err := s.layout.read(doc)
	if err != nil {
		s.logger.Warn("removing an event that cannot be read", "event", doc.ID, "error", err)
		_, err := tx.ExecContext(ctx, "DELETE FROM term WHERE n = ?", n)
		return err
	}
	for _, t := range e.terms {
		key, err := w.keys.id(ctx, t)
		if err == nil {
			_, err = w.removeTerm.ExecContext(ctx, key, t.value, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeKeys removes those that no event has any more.
func (s *Store) removeKeys(ctx context.Context) error {
	return s.write(ctx, "removing keys", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM key WHERE NOT EXISTS (SELECT 1 FROM term WHERE term.key = key.id)")
		return err
	})
}
