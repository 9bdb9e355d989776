package sqlite

import (
	"context"
	"database/sql"

	"github.com/watershipmq/watership/schemas"
)

// Find says which of these ids are in the store, and in which stream. An id is
// there once.
func (s *Store) Find(ctx context.Context, ids []string) (map[string]schemas.Stored, error) {
	found := make(map[string]schemas.Stored, len(ids))
	err := s.each(ctx, "finding documents by id", ids, func(at schemas.Stored, _ int64) { found[at.ID] = at })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Sequences reads event.sequence of documents, also of those that were created
// a moment ago. One that is not there is absent from the answer.
func (s *Store) Sequences(ctx context.Context, documents []schemas.Stored) (map[schemas.Stored]int64, error) {
	ids := make([]string, len(documents))
	asked := make(map[schemas.Stored]bool, len(documents))
	for i, document := range documents {
		ids[i], asked[document] = document.ID, true
	}
	sequences := make(map[schemas.Stored]int64, len(documents))
	err := s.each(ctx, "reading the sequences of documents that are there", ids, func(at schemas.Stored, sequence int64) {
		if asked[at] {
			sequences[at] = sequence
		}
	})
	if err != nil {
		return nil, err
	}
	return sequences, nil
}

// each gives the documents with these ids.
func (s *Store) each(ctx context.Context, doing string, ids []string, give func(at schemas.Stored, sequence int64)) error {
	if len(ids) == 0 {
		return nil
	}
	have := among(ids)(`"event.id"`)
	rows, err := s.readers.QueryContext(ctx, `SELECT stream, "event.id", "event.sequence" FROM event WHERE `+have.sql, have.args...)
	if err != nil {
		return s.failed(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		var at schemas.Stored
		var sequence int64
		if err := rows.Scan(&at.Index, &at.ID, &sequence); err != nil {
			return s.failed(doing, err)
		}
		give(at, sequence)
	}
	return s.failed(doing, rows.Err())
}

// HighestSequence is the highest event.sequence of all documents that were
// created so far, 0 if there are none. Those above schemas.MaxSequence do not count.
func (s *Store) HighestSequence(ctx context.Context) (int64, error) {
	var highest sql.NullInt64
	row := s.readers.QueryRowContext(ctx, `SELECT max("event.sequence") FROM event WHERE "event.sequence" <= ?`, schemas.MaxSequence)
	return highest.Int64, s.failed("reading the highest sequence", row.Scan(&highest))
}

// HighestSequenceOf is the highest event.sequence of the documents of a source that
// were created so far, 0 if there are none.
func (s *Store) HighestSequenceOf(ctx context.Context, source string) (int64, error) {
	var highest sql.NullInt64
	// The + keeps from sorting all that the source has: its index is by time.
	row := s.readers.QueryRowContext(ctx, `SELECT max("event.sequence") FROM (SELECT "event.sequence" FROM event
		WHERE +"watership.source" = ? AND "event.sequence" <= ? ORDER BY "event.sequence" DESC LIMIT 1)`, source, schemas.MaxSequence)
	return highest.Int64, s.failed("reading the highest sequence of "+source, row.Scan(&highest))
}
