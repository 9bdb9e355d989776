package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// Create writes documents that are not there yet, in one transaction, and says
// for each what became of it, in order:
//
//   - Created: on the disk.
//   - Conflict: its id is taken; Index is the stream of the document that has it.
//   - Refused: not acceptable as it is, and the others are none the worse.
//
// An error is a *schemas.StoreError, and then none of them was written unless
// the error came with the commit: they are sent again, and those that were taken
// conflict.
func (s *Store) Create(ctx context.Context, docs []schemas.Document) ([]schemas.Result, error) {
	results := make([]schemas.Result, len(docs))
	entries := make(map[int]entry, len(docs))
	for i, doc := range docs {
		entry, err := s.layout.read(doc)
		if err != nil {
			results[i] = schemas.Result{Status: schemas.Refused, Reason: line{err}.Error()}
			continue
		}
		entries[i] = entry
	}
	if len(entries) == 0 {
		return results, nil
	}
	err := s.write(ctx, fmt.Sprintf("creating %d documents", len(entries)), func(tx *sql.Tx) error {
		return s.createAll(ctx, tx, entries, results)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (s *Store) createAll(ctx context.Context, tx *sql.Tx, entries map[int]entry, results []schemas.Result) error {
	w, err := s.newWriter(ctx, tx)
	if err != nil {
		return err
	}
	for i := range results {
		if entry, ok := entries[i]; ok {
			if results[i], err = w.create(ctx, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// writer has the statements that write and remove events in a transaction.
type writer struct {
	event, document, text, term, removeTerm, taken *sql.Stmt
	keys                                           keys
}

// newWriter prepares them. They end with the transaction.
func (s *Store) newWriter(ctx context.Context, tx *sql.Tx) (*writer, error) {
	w := &writer{keys: keys{known: map[[2]string]int64{}}}
	for _, statement := range []struct {
		into **sql.Stmt
		text string
	}{
		{&w.event, s.layout.insert()},
		{&w.document, "INSERT INTO document (n, head, body) VALUES (?, ?, ?)"},
		{&w.text, s.layout.insertTexts()},
		{&w.term, "INSERT INTO term (key, value, n) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"},
		{&w.removeTerm, "DELETE FROM term WHERE key = ? AND value = ? AND n = ?"},
		{&w.taken, `SELECT stream FROM event WHERE "event.id" = ?`},
		{&w.keys.find, "SELECT id FROM key WHERE field = ? AND name = ?"},
		{&w.keys.make, "INSERT INTO key (field, name) VALUES (?, ?)"},
	} {
		prepared, err := tx.PrepareContext(ctx, statement.text)
		if err != nil {
			return nil, err
		}
		*statement.into = prepared
	}
	return w, nil
}

func (w *writer) create(ctx context.Context, e entry) (schemas.Result, error) {
	written, err := w.event.ExecContext(ctx, append([]any{e.stream}, e.values...)...)
	if err != nil {
		return schemas.Result{}, err
	}
	if rows, err := written.RowsAffected(); err != nil || rows == 0 {
		return w.conflict(ctx, e.id, err)
	}
	n, err := written.LastInsertId()
	if err != nil {
		return schemas.Result{}, err
	}
	return schemas.Result{Status: schemas.Created}, w.fill(ctx, n, e)
}

func (w *writer) conflict(ctx context.Context, id string, err error) (schemas.Result, error) {
	result := schemas.Result{Status: schemas.Conflict}
	if err != nil {
		return result, err
	}
	return result, w.taken.QueryRowContext(ctx, id).Scan(&result.Index)
}

// fill writes all of an event but its row.
func (w *writer) fill(ctx context.Context, n int64, e entry) error {
	if _, err := w.document.ExecContext(ctx, n, e.head, e.body); err != nil {
		return err
	}
	if e.hasText() {
		if _, err := w.text.ExecContext(ctx, append([]any{n}, e.words...)...); err != nil {
			return err
		}
	}
	for _, t := range e.terms {
		key, err := w.keys.id(ctx, t)
		if err != nil {
			return err
		}
		if _, err := w.term.ExecContext(ctx, key, t.value, n); err != nil {
			return err
		}
	}
	return nil
}

func (e entry) hasText() bool {
	for _, text := range e.words {
		if text != nil && strings.TrimSpace(text.(string)) != "" {
			return true
		}
	}
	return false
}

// keys finds the ids of keys, and makes those that are new. It remembers them for
// one transaction only: another may take them away.
type keys struct {
	find, make *sql.Stmt
	known      map[[2]string]int64
}

func (k keys) id(ctx context.Context, t term) (int64, error) {
	key := [2]string{t.field, t.name}
	if id, known := k.known[key]; known {
		return id, nil
	}
	var id int64
	err := k.find.QueryRowContext(ctx, t.field, t.name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		id, err = k.add(ctx, t)
	}
	if err == nil {
		k.known[key] = id
	}
	return id, err
}

func (k keys) add(ctx context.Context, t term) (int64, error) {
	made, err := k.make.ExecContext(ctx, t.field, t.name)
	if err != nil {
		return 0, err
	}
	return made.LastInsertId()
}
