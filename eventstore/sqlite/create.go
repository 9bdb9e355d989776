package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Create writes documents with new ids in one transaction, and returns a result for
// each, in order:
//
//   - Created: on the disk.
//   - Conflict: the id exists; Index is the stream of the document that has it.
//   - Refused: the document is invalid. The others are not affected.
//
// An error is a *eventstore.Error. None of the documents was written then, unless
// the commit failed. The indexer sends them again, and written ones conflict.
func (s *Store) Create(ctx context.Context, docs []schemas.Document) ([]eventstore.Result, error) {
	results := make([]eventstore.Result, len(docs))
	documents := make(map[int]parsedDocument, len(docs))
	for i, doc := range docs {
		parsed, err := s.layout.parse(doc)
		if err != nil {
			results[i] = eventstore.Result{Status: eventstore.Refused, Reason: oneLineError{err}.Error()}
			continue
		}
		documents[i] = parsed
	}
	if len(documents) == 0 {
		return results, nil
	}
	err := s.write(ctx, fmt.Sprintf("creating %d documents", len(documents)), func(tx *sql.Tx) error {
		return s.createAll(ctx, tx, documents, results)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (s *Store) createAll(ctx context.Context, tx *sql.Tx, documents map[int]parsedDocument, results []eventstore.Result) error {
	w, err := s.newEventWriter(ctx, tx)
	if err != nil {
		return err
	}
	for i := range results {
		if document, ok := documents[i]; ok {
			if results[i], err = w.create(ctx, document); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventWriter has the prepared statements that write and remove events in a transaction.
type eventWriter struct {
	insertEvent, insertDocument, insertText, insertTerm, deleteTerm, selectStream *sql.Stmt
	keys                                                                          keyIDs
}

// newEventWriter prepares the statements, which are closed with the transaction.
func (s *Store) newEventWriter(ctx context.Context, tx *sql.Tx) (*eventWriter, error) {
	w := &eventWriter{keys: keyIDs{cached: map[[2]string]int64{}}}
	for _, statement := range []struct {
		into **sql.Stmt
		text string
	}{
		{&w.insertEvent, s.layout.insertEventSQL()},
		{&w.insertDocument, "INSERT INTO document (n, head, body) VALUES (?, ?, ?)"},
		{&w.insertText, s.layout.insertTextSQL()},
		{&w.insertTerm, "INSERT INTO term (key, value, n) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"},
		{&w.deleteTerm, "DELETE FROM term WHERE key = ? AND value = ? AND n = ?"},
		{&w.selectStream, `SELECT stream FROM event WHERE "event.id" = ?`},
		{&w.keys.selectKey, "SELECT id FROM key WHERE field = ? AND name = ?"},
		{&w.keys.insertStatement, "INSERT INTO key (field, name) VALUES (?, ?)"},
	} {
		prepared, err := tx.PrepareContext(ctx, statement.text)
		if err != nil {
			return nil, err
		}
		*statement.into = prepared
	}
	return w, nil
}

func (w *eventWriter) create(ctx context.Context, e parsedDocument) (eventstore.Result, error) {
	written, err := w.insertEvent.ExecContext(ctx, append([]any{e.stream}, e.values...)...)
	if err != nil {
		return eventstore.Result{}, err
	}
	if rows, err := written.RowsAffected(); err != nil || rows == 0 {
		return w.conflict(ctx, e.id, err)
	}
	n, err := written.LastInsertId()
	if err != nil {
		return eventstore.Result{}, err
	}
	return eventstore.Result{Status: eventstore.Created}, w.insertParts(ctx, n, e)
}

func (w *eventWriter) conflict(ctx context.Context, id string, err error) (eventstore.Result, error) {
	result := eventstore.Result{Status: eventstore.Conflict}
	if err != nil {
		return result, err
	}
	return result, w.selectStream.QueryRowContext(ctx, id).Scan(&result.Index)
}

// insertParts writes an event to all tables but event.
func (w *eventWriter) insertParts(ctx context.Context, n int64, e parsedDocument) error {
	if _, err := w.insertDocument.ExecContext(ctx, n, e.head, e.body); err != nil {
		return err
	}
	if e.hasText() {
		if _, err := w.insertText.ExecContext(ctx, append([]any{n}, e.words...)...); err != nil {
			return err
		}
	}
	for _, t := range e.terms {
		key, err := w.keys.id(ctx, t)
		if err != nil {
			return err
		}
		if _, err := w.insertTerm.ExecContext(ctx, key, t.value, n); err != nil {
			return err
		}
	}
	return nil
}

func (e parsedDocument) hasText() bool {
	for _, text := range e.words {
		if text != nil && strings.TrimSpace(text.(string)) != "" {
			return true
		}
	}
	return false
}

// keyIDs finds the ids of keys, and creates new ones. The cache lasts for one
// transaction only, since another one can delete keys.
type keyIDs struct {
	selectKey, insertStatement *sql.Stmt
	cached                     map[[2]string]int64
}

func (k keyIDs) id(ctx context.Context, t term) (int64, error) {
	key := [2]string{t.field, t.name}
	if id, known := k.cached[key]; known {
		return id, nil
	}
	var id int64
	err := k.selectKey.QueryRowContext(ctx, t.field, t.name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		id, err = k.insertKey(ctx, t)
	}
	if err == nil {
		k.cached[key] = id
	}
	return id, err
}

func (k keyIDs) insertKey(ctx context.Context, t term) (int64, error) {
	made, err := k.insertStatement.ExecContext(ctx, t.field, t.name)
	if err != nil {
		return 0, err
	}
	return made.LastInsertId()
}
