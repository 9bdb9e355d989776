package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Retain removes this much in one transaction, so that other writers do not wait long,
// and loads one event at a time.
const (
	maxRemovedEvents = 200      // events
	maxRemovedBytes  = 16 << 20 // of documents; a single one can be larger
)

// Retain removes the events that exceed the retention of their stream, by their
// sequence, and returns their number. The server calls it every minute. The file does
// not shrink: SQLite reuses the free pages.
func (s *Store) Retain(ctx context.Context) (removed int64, err error) {
	now := time.Now()
	for stream, retention := range s.retention {
		for more := retention > 0; more; {
			var n int64
			n, more, err = s.removeOldest(ctx, stream, now.Add(-retention))
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

// removeOldest removes some of the oldest events of a stream from before a time, and
// reports whether there may be more.
func (s *Store) removeOldest(ctx context.Context, stream schemas.Stream, before time.Time) (removed int64, more bool, err error) {
	err = s.write(ctx, "removing old events", func(tx *sql.Tx) error {
		var old []int64
		if old, more, err = selectOldest(ctx, tx, stream, before); err != nil || len(old) == 0 {
			return err
		}
		w, err := s.newEventWriter(ctx, tx)
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

// selectOldest selects the events that one transaction removes.
func selectOldest(ctx context.Context, tx *sql.Tx, stream schemas.Stream, before time.Time) (old []int64, more bool, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT event.n, length(head) + length(body) FROM event JOIN document USING (n)
		WHERE stream = ? AND "event.sequence" < ? ORDER BY "event.sequence" LIMIT ?`, string(stream), before.UnixMicro(), maxRemovedEvents)
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
		if bytes += size; bytes > maxRemovedBytes && len(old) > 0 {
			return old, true, rows.Close()
		}
		old = append(old, n)
	}
	return old, len(old) == maxRemovedEvents, rows.Err()
}

// remove deletes an event from all tables. It parses the document again to find the
// event's terms: an index on term.n would be as large as the whole table.
func (s *Store) remove(ctx context.Context, tx *sql.Tx, w *eventWriter, n int64) error {
	var found storedDocument
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

// removeTerms scans the whole table for a document that cannot be parsed, which has to
// be removed too.
func (s *Store) removeTerms(ctx context.Context, tx *sql.Tx, w *eventWriter, n int64, doc schemas.Document) error {
	e, err := s.layout.parse(doc)
	if err != nil {
		s.logger.Warn("removing an event that cannot be parsed", "event", doc.ID, "error", err)
		_, err := tx.ExecContext(ctx, "DELETE FROM term WHERE n = ?", n)
		return err
	}
	for _, t := range e.terms {
		key, err := w.keys.id(ctx, t)
		if err == nil {
			_, err = w.deleteTerm.ExecContext(ctx, key, t.value, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeKeys deletes the keys without terms.
func (s *Store) removeKeys(ctx context.Context) error {
	return s.write(ctx, "removing keys", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM key WHERE NOT EXISTS (SELECT 1 FROM term WHERE term.key = key.id)")
		return err
	})
}
