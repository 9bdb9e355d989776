package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// removedAtOnce is how many events a transaction removes, so that nobody waits
// long to write.
const removedAtOnce = 200

// Retain removes the events that are older than the retention of their stream,
// by their sequence, and says how many. Whoever keeps events calls it now and
// then, such as every minute. The file does not become smaller: what is free is
// used again.
func (s *Store) Retain(ctx context.Context) (removed int64, err error) {
	now := time.Now()
	for stream, retention := range s.retention {
		for more := retention > 0; more; {
			n, err := s.retain(ctx, stream, now.Add(-retention))
			if removed += n; err != nil {
				return removed, err
			}
			more = n == removedAtOnce
		}
	}
	if removed > 0 {
		err = s.removeKeys(ctx)
	}
	return removed, err
}

// retain removes the oldest events of a stream from before a time, of all that
// there are at most removedAtOnce.
func (s *Store) retain(ctx context.Context, stream schemas.Stream, before time.Time) (removed int64, err error) {
	err = s.write(ctx, "removing old events", func(tx *sql.Tx) error {
		old, err := oldest(ctx, tx, stream, before)
		if err != nil || len(old) == 0 {
			return err
		}
		w, err := s.newWriter(ctx, tx)
		if err != nil {
			return err
		}
		for n, doc := range old {
			if err := s.remove(ctx, tx, w, n, doc); err != nil {
				return err
			}
		}
		removed = int64(len(old))
		return nil
	})
	return removed, err
}

func oldest(ctx context.Context, tx *sql.Tx, stream schemas.Stream, before time.Time) (map[int64]schemas.Document, error) {
	rows, err := tx.QueryContext(ctx, `SELECT event.n, "event.id", head, body FROM event JOIN document USING (n)
		WHERE stream = ? AND "event.sequence" < ? ORDER BY "event.sequence" LIMIT ?`, string(stream), before.UnixMicro(), removedAtOnce)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	old := map[int64]schemas.Document{}
	for rows.Next() {
		var n int64
		var found stored
		if err := rows.Scan(&n, &found.id, &found.head, &found.body); err != nil {
			return nil, err
		}
		old[n] = schemas.Document{ID: found.id, Stream: stream, Source: append(found.head, found.body...)}
	}
	return old, rows.Err()
}

// remove takes an event out of all tables. What is under keys is found by reading
// the document again: an index of it by event would be as large as all of it.
func (s *Store) remove(ctx context.Context, tx *sql.Tx, w *writer, n int64, doc schemas.Document) error {
	e, err := s.layout.read(doc)
	if err != nil {
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
	for _, statement := range []string{
		"DELETE FROM text WHERE rowid = ?", "DELETE FROM document WHERE n = ?", "DELETE FROM event WHERE n = ?",
	} {
		if _, err := tx.ExecContext(ctx, statement, n); err != nil {
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
