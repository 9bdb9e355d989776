package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// withoutFailureIndexes is the first version of which the events are not written again.
const withoutFailureIndexes = 4

// withRecords is the first version that has records and the columns of streams, withTimes the first
// that has the columns of times, withIndexes the first that has the indexes of summaries,
// withPeriods the first that has the column of retention periods, and withReceivers the first that has
// the column of receivers.
const (
	withRecords   = 6
	withTimes     = 7
	withIndexes   = 8
	withPeriods   = 9
	withReceivers = 10
	withCounts    = 11
)

// upgrade upgrades a file of an older version in one transaction.
func (i *installer) upgrade(ctx context.Context, tx *sql.Tx, version int) error {
	i.logger.Info("upgrading the store", "path", i.path, "from", version, "to", schemaVersion)
	if version < withRecords {
		if err := moveRecords(ctx, tx, version); err != nil {
			return err
		}
	}
	added := ""
	if version < withoutFailureIndexes {
		if err := i.rewrite(ctx, tx); err != nil {
			return err
		}
		added = failureIndexes
	} else {
		for _, step := range []struct {
			first int // version that has it
			sql   string
		}{
			{withRecords, streamColumns},
			{withTimes, timeColumns},
			{withPeriods, periodColumn},
			{withReceivers, receiverColumn},
			{withCounts, countTables},
			{withIndexes, failureIndexes},
		} {
			if version < step.first {
				added += step.sql + ";"
			}
		}
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA user_version = %d", added, schemaVersion))
	return err
}

// moveRecords moves the jobs and the handovers of a file to its records.
func moveRecords(ctx context.Context, tx *sql.Tx, version int) error {
	statements := recordTable + `;
		INSERT INTO record SELECT 'job', id, version, document FROM job;
		DROP TABLE job;`
	if version > 1 {
		statements += `
		INSERT INTO record SELECT 'handover', name, 1, document FROM handover;
		DROP TABLE handover`
	}
	_, err := tx.ExecContext(ctx, statements)
	return err
}

// rewrite writes the events of a file to the tables of schema.sql.
func (i *installer) rewrite(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `
		CREATE TABLE former_event AS SELECT *, NULL AS "watership.stream.id", NULL AS "watership.stream.version",
			NULL AS "watership.queue_time", NULL AS "watership.total_time", NULL AS "watership.receiver" FROM event JOIN document USING (n) ORDER BY n;
		DROP TABLE event; DROP TABLE document; DROP TABLE word; DROP TABLE text; DROP TABLE term; DROP TABLE key;
		`+tables+streamColumns+timeColumns+periodColumn+receiverColumn+countTables)
	if err != nil {
		return err
	}
	if err := i.copyEvents(ctx, tx); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DROP TABLE former_event")
	return err
}

// copyEvents writes each former event again. A document that cannot be parsed stays in the
// file, with the columns of its former row.
func (i *installer) copyEvents(ctx context.Context, tx *sql.Tx) error {
	changes := tallyChanges{}
	w, err := i.newEventWriter(ctx, tx, changes)
	if err != nil {
		return err
	}
	read, err := tx.PrepareContext(ctx, "SELECT rowid, n, stream, head, body, "+quoteNames(i.layout.columns)+
		" FROM former_event WHERE rowid > ? ORDER BY rowid LIMIT 1")
	if err != nil {
		return err
	}
	for last, n := int64(0), int64(0); ; {
		former := parsedDocument{values: make([]any, len(i.layout.columns)), words: make([]any, len(i.layout.textColumns))}
		targets := []any{&last, &n, &former.stream, &former.head, &former.body}
		for column := range former.values {
			targets = append(targets, &former.values[column])
		}
		err := read.QueryRowContext(ctx, last).Scan(targets...)
		if errors.Is(err, sql.ErrNoRows) {
			return i.saveTally(ctx, tx, changes)
		}
		if err != nil {
			return err
		}
		if err := w.insert(ctx, i.layout, n, i.parseFormer(former)); err != nil {
			return err
		}
	}
}

func (i *installer) parseFormer(former parsedDocument) parsedDocument {
	former.id, _ = former.values[i.layout.columnIndex["event.id"]].(string)
	parsed, err := i.layout.parse(schemas.Document{
		ID: former.id, Stream: former.stream, Source: slices.Concat(former.head, former.body),
	})
	if err != nil {
		i.logger.Warn("cannot parse an event: its words and headers are no longer searchable", "event", former.id, "error", err)
		return former
	}
	return parsed
}
