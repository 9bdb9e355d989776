package sqlite

import (
	"context"
	"database/sql"

	"github.com/watershipmq/watership/eventstore"
)

// Find returns the ids that are in the store, each with its stream.
func (r *reader) Find(ctx context.Context, ids []string) (map[string]eventstore.DocumentID, error) {
	found := make(map[string]eventstore.DocumentID, len(ids))
	err := r.scanByID(ctx, "finding documents by id", ids, func(stored eventstore.DocumentID, _ int64) { found[stored.ID] = stored })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Sequences reads event.sequence of documents. Missing ones are absent from the result.
func (r *reader) Sequences(ctx context.Context, documents []eventstore.DocumentID) (map[eventstore.DocumentID]int64, error) {
	ids := make([]string, len(documents))
	wanted := make(map[eventstore.DocumentID]bool, len(documents))
	for i, document := range documents {
		ids[i], wanted[document] = document.ID, true
	}
	sequences := make(map[eventstore.DocumentID]int64, len(documents))
	err := r.scanByID(ctx, "reading the sequences of documents", ids, func(stored eventstore.DocumentID, sequence int64) {
		if wanted[stored] {
			sequences[stored] = sequence
		}
	})
	if err != nil {
		return nil, err
	}
	return sequences, nil
}

// scanByID calls visit for each document with one of the ids.
func (r *reader) scanByID(ctx context.Context, operation string, ids []string, visit func(stored eventstore.DocumentID, sequence int64)) error {
	if len(ids) == 0 {
		return nil
	}
	byID := oneOf(ids).ofColumn("event.id")
	rows, err := r.readers.QueryContext(ctx, `SELECT stream, "event.id", "event.sequence" FROM event WHERE `+byID.sql, byID.args...)
	if err != nil {
		return r.storeError(operation, err)
	}
	defer rows.Close()
	for rows.Next() {
		var stored eventstore.DocumentID
		var sequence int64
		if err := rows.Scan(&stored.Index, &stored.ID, &sequence); err != nil {
			return r.storeError(operation, err)
		}
		visit(stored, sequence)
	}
	return r.storeError(operation, rows.Err())
}

// HighestSequence is the highest event.sequence of all documents up to
// eventstore.MaxSequence, 0 if none exists.
func (r *reader) HighestSequence(ctx context.Context) (int64, error) {
	var highest sql.NullInt64
	row := r.readers.QueryRowContext(ctx, `SELECT max("event.sequence") FROM event WHERE "event.sequence" <= ?`, eventstore.MaxSequence)
	return highest.Int64, r.storeError("reading the highest sequence", row.Scan(&highest))
}

// HighestSequenceOf is the highest event.sequence of the documents of a source up to
// eventstore.MaxSequence, 0 if none exists.
func (r *reader) HighestSequenceOf(ctx context.Context, source string) (int64, error) {
	var highest sql.NullInt64
	// The + disables the source's index, which is by time and would need a sort.
	row := r.readers.QueryRowContext(ctx, `SELECT max("event.sequence") FROM (SELECT "event.sequence" FROM event
		WHERE +"watership.source" = ? AND "event.sequence" <= ? ORDER BY "event.sequence" DESC LIMIT 1)`, source, eventstore.MaxSequence)
	return highest.Int64, r.storeError("reading the highest sequence of "+source, row.Scan(&highest))
}
