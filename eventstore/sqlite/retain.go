package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Retain removes this much in one transaction, so that other writers do not wait long.
const (
	maxRemovedEvents = 500      // events
	maxRemovedBytes  = 16 << 20 // of compressed documents; a single one can be larger
)

// retention removes old events, and notes in records which ones.
type retention struct {
	records
	maxAge map[schemas.Stream]time.Duration
	rules  eventstore.KeepRules
}

// Retain removes the events that exceed the retention of their stream, by their
// sequence, and returns their number. The server calls it every minute. Then it gives
// most of the freed pages of the file back.
func (r *retention) Retain(ctx context.Context) (removed int64, err error) {
	ages, err := r.ages(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.rules.Note(ctx, &r.records); err != nil {
		return 0, err
	}
	now := time.Now()
	for stream, age := range ages {
		for more := age > 0; more; {
			var n int64
			n, more, err = r.removeOldest(ctx, stream, now.Add(-age))
			if removed += n; err != nil {
				return removed, err
			}
		}
	}
	if removed == 0 {
		return 0, nil
	}
	if err := r.removeUnused(ctx); err != nil {
		return removed, err
	}
	return removed, r.shrink(ctx)
}

// ages returns the retention of each stream: the settings have it of the two without a period, and
// the name of the others. Periods may be of former rules.
func (r *retention) ages(ctx context.Context) (map[schemas.Stream]time.Duration, error) {
	ages := map[schemas.Stream]time.Duration{schemas.Traffic: r.maxAge[schemas.Traffic], schemas.Failures: r.maxAge[schemas.Failures]}
	for stream := schemas.Stream(""); ; { // each is one look into the index
		row := r.readers.QueryRowContext(ctx, "SELECT coalesce(min(kept_in), '') FROM event WHERE failure = 0 AND kept_in > ?", stream)
		if err := row.Scan(&stream); err != nil || stream == "" {
			return ages, r.storeError("removing old events", err)
		}
		ages[stream], _ = stream.Period()
	}
}

// removeOldest removes some of the oldest events of a stream from before a time, and
// reports whether there may be more.
func (r *retention) removeOldest(ctx context.Context, stream schemas.Stream, before time.Time) (removed int64, more bool, err error) {
	err = r.writeEvents(ctx, "removing old events", func(tx *sql.Tx, changes tallyChanges) error {
		var old []oldEvent
		if old, more, err = selectOldest(ctx, tx, stream, before); err != nil || len(old) == 0 {
			return err
		}
		highest := map[string]int64{} // by source
		for _, e := range old {
			if err := remove(ctx, tx, changes, e.n); err != nil {
				return err
			}
			highest[e.source] = max(highest[e.source], e.sequence)
		}
		for source, sequence := range highest {
			if err := noteRemoved(ctx, tx, source, stream, sequence); err != nil {
				return err
			}
		}
		removed = int64(len(old))
		return nil
	})
	return removed, more, err
}

// noteRemoved saves that events of a source up to a sequence are removed.
func noteRemoved(ctx context.Context, tx *sql.Tx, source string, stream schemas.Stream, sequence int64) error {
	var document []byte
	row := tx.QueryRowContext(ctx, "SELECT document FROM record WHERE kind = ? AND id = ?", eventstore.RemovedRecord, source)
	if err := row.Scan(&document); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	marks, err := eventstore.ParseMarks(document)
	if err != nil {
		return err
	}
	marks.Add(stream, sequence)
	if document, err = json.Marshal(marks); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO record (kind, id, version, document) VALUES (?, ?, 1, ?)
		ON CONFLICT DO UPDATE SET document = excluded.document, version = version + 1`, eventstore.RemovedRecord, source, document)
	return err
}

// Removed reports which events of a source Retain has removed.
func (r *retention) Removed(ctx context.Context, source string) (eventstore.Removed, error) {
	document, _, err := r.Record(ctx, eventstore.RemovedRecord, source)
	if err != nil {
		return eventstore.Removed{}, err
	}
	marks, err := eventstore.ParseMarks(document)
	if err != nil {
		return eventstore.Removed{}, err
	}
	kept, err := eventstore.ReadKeepRules(ctx, &r.records)
	return eventstore.Removed{Marks: marks, Kept: kept}, err
}

// oldEvent is an event that is about to be removed.
type oldEvent struct {
	n        int64
	source   string
	sequence int64
}

// selectOldest selects the events that one transaction removes.
func selectOldest(ctx context.Context, tx *sql.Tx, stream schemas.Stream, before time.Time) (old []oldEvent, more bool, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT event.n, coalesce("watership.source", ''), "event.sequence", length(head) + length(body) FROM event JOIN document USING (n)
		WHERE failure = ? AND kept_in IS ? AND "event.sequence" < ? ORDER BY "event.sequence" LIMIT ?`,
		stream.Base() == schemas.Failures, keptIn(stream), before.UnixMicro(), maxRemovedEvents)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for bytes := 0; rows.Next(); {
		var e oldEvent
		var size int
		if err := rows.Scan(&e.n, &e.source, &e.sequence, &size); err != nil {
			return nil, false, err
		}
		if bytes += size; bytes > maxRemovedBytes && len(old) > 0 {
			return old, true, rows.Close()
		}
		old = append(old, e)
	}
	return old, len(old) == maxRemovedEvents, rows.Err()
}

// remove deletes an event from all tables. SQLite removes its words from term and text
// when it merges their parts, and leaves it out of their results until then.
func remove(ctx context.Context, tx *sql.Tx, changes tallyChanges, n int64) error {
	for _, statement := range []string{
		"DELETE FROM number WHERE n = ?", "DELETE FROM term WHERE rowid = ?", "DELETE FROM text WHERE rowid = ?",
		"DELETE FROM document WHERE n = ?",
	} {
		if _, err := tx.ExecContext(ctx, statement, n); err != nil {
			return err
		}
	}
	var of tallyRow
	row := tx.QueryRowContext(ctx, `DELETE FROM event WHERE n = ? RETURNING "@timestamp", "event.action", "watership.queue"`, n)
	var millis int64
	if err := row.Scan(&millis, &of.action, &of.queue); err != nil {
		return err
	}
	of.period = millis / tallyPeriod
	changes.add(of, -1)
	return nil
}

// removeUnused deletes the keys without terms and the dictionaries without documents. The
// newest dictionary is for documents to come.
func (r *retention) removeUnused(ctx context.Context) error {
	return r.write(ctx, "removing keys", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			DELETE FROM key WHERE NOT EXISTS (SELECT 1 FROM number WHERE number.key = key.id)
				AND NOT EXISTS (SELECT 1 FROM posting WHERE term >= printf('%x=', id) AND term < printf('%x>', id));
			DELETE FROM dictionary WHERE n < (SELECT max(n) FROM dictionary AS later
				WHERE later.n <= coalesce((SELECT min(n) FROM document), later.n))`)
		return err
	})
}

// The free pages of a file are used again. Retain returns those that exceed a part of the
// file, some at a time, so that other writers do not wait long.
const (
	maxFreePart  = 8   // an eighth
	shrunkAtOnce = 256 // pages
)

func (r *retention) shrink(ctx context.Context) error {
	const operation = "shrinking the file"
	for {
		var pages, free int64
		row := r.writer.QueryRowContext(ctx, "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count")
		if err := row.Scan(&pages, &free); err != nil {
			return r.storeError(operation, err)
		}
		if free <= pages/maxFreePart {
			return nil
		}
		var vacuum int64
		if err := r.writer.QueryRowContext(ctx, "SELECT auto_vacuum FROM pragma_auto_vacuum").Scan(&vacuum); err != nil || vacuum == 0 {
			return r.storeError(operation, err)
		}
		if _, err := r.writer.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrunkAtOnce)); err != nil {
			return r.storeError(operation, err)
		}
	}
}
