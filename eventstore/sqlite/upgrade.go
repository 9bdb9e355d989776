package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// upgrade migrates a file of an older version to schema.sql, in one transaction.
func (s *Store) upgrade(ctx context.Context, tx *sql.Tx, version int) error {
	steps := []func(context.Context, *sql.Tx) error{
		1: s.createHandoverTable,
		2: s.reindexWords,
	}
	s.logger.Info("upgrading the store", "path", s.path, "from", version, "to", schemaVersion)
	for _, step := range steps[version:] {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
	return err
}

// reindexWords fills the table of words from the documents: before version 3 words
// were runs of letters and digits.
func (s *Store) reindexWords(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "DROP TABLE word; DROP TABLE text;"+textTables()); err != nil {
		return err
	}
	write, err := tx.PrepareContext(ctx, s.layout.insertTextSQL())
	if err != nil {
		return err
	}
	read, err := tx.PrepareContext(ctx, `SELECT event.n, "event.id", stream, head, body FROM event JOIN document USING (n)
		WHERE event.n > ? ORDER BY event.n LIMIT 1`)
	if err != nil {
		return err
	}
	for last := int64(0); ; {
		var found storedDocument
		err := read.QueryRowContext(ctx, last).Scan(&last, &found.id, &found.stream, &found.head, &found.body)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		parsed, err := s.layout.parse(found.document())
		if err != nil {
			s.logger.Warn("cannot parse an event: its words are no longer searchable", "event", found.id, "error", err)
			continue
		}
		if !parsed.hasText() {
			continue
		}
		if _, err := write.ExecContext(ctx, append([]any{last}, parsed.words...)...); err != nil {
			return err
		}
	}
}

// textTables is the part of schema.sql that creates the tables of words.
func textTables() string {
	_, after, _ := strings.Cut(schema, "CREATE VIRTUAL TABLE text")
	tables, _, _ := strings.Cut(after, "-- Replay jobs")
	return "CREATE VIRTUAL TABLE text" + tables
}

func (s *Store) createHandoverTable(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "CREATE TABLE handover (name TEXT PRIMARY KEY, document BLOB NOT NULL)")
	return err
}
