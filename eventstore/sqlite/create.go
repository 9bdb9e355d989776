package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/analyzer"
	"github.com/watershipmq/watership/schemas"
)

// creator writes events.
type creator struct {
	*file
	compressor atomic.Pointer[compressor] // of the newest dictionary that a write has seen
}

// Create writes documents with new ids in one transaction, and returns a result for
// each, in order:
//
//   - Created: on the disk.
//   - Conflict: the id exists; Index is the stream of the document that has it.
//   - Refused: the document is invalid. The others are not affected.
//
// An error is a *eventstore.Error. None of the documents was written then, unless
// the commit failed. The indexer sends them again, and written ones conflict.
func (c *creator) Create(ctx context.Context, docs []schemas.Document) ([]eventstore.Result, error) {
	results := make([]eventstore.Result, len(docs))
	documents := make(map[int]parsedDocument, len(docs))
	compressor := c.compressor.Load()
	for i, doc := range docs {
		parsed, err := c.layout.parse(doc)
		if err != nil {
			results[i] = eventstore.Result{Status: eventstore.Refused, Reason: oneLineError{err}.Error()}
			continue
		}
		documents[i] = parsed.compressedBy(compressor) // here, since others can write at the same time
	}
	if len(documents) == 0 {
		return results, nil
	}
	operation := fmt.Sprintf("creating %d documents", len(documents))
	for _, text := range append(c.layout.eventStatements(), addToTally) {
		if _, err := c.writing.get(ctx, text); err != nil {
			return nil, c.storeError(operation, err)
		}
	}
	err := c.writeEvents(ctx, operation, func(tx *sql.Tx, changes tallyChanges) error {
		return c.createAll(ctx, tx, changes, documents, results)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (c *creator) createAll(ctx context.Context, tx *sql.Tx, changes tallyChanges, documents map[int]parsedDocument, results []eventstore.Result) error {
	w, err := c.newEventWriter(ctx, tx, changes)
	if err != nil {
		return err
	}
	for i := range results {
		if document, ok := documents[i]; ok {
			if results[i], err = w.create(ctx, c.layout, document); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventWriter has the prepared statements that write and remove events in a transaction.
type eventWriter struct {
	tx      *sql.Tx
	changes tallyChanges

	insertEvent, insertDocument, insertText, insertTerm, insertNumber, selectStream *sql.Stmt
	keys                                                                            keyIDs
	compressor                                                                      *compressor
}

// eventStatements returns the texts of the statements of an eventWriter, in the order of its fields.
func (l layout) eventStatements() []string {
	return []string{
		l.insertEventSQL(),
		"INSERT INTO document (n, head, body) VALUES (?, ?, ?)",
		l.insertTextSQL(),
		"INSERT INTO term (rowid, value) VALUES (?, ?)",
		"INSERT INTO number (key, value, n) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		`SELECT stream FROM event WHERE substr("event.id", -16) = substr(?1, -16) AND "event.id" = ?1`,
		"SELECT id, multivalued FROM key WHERE field = ? AND name = ?",
		"INSERT INTO key (field, name) VALUES (?, ?)",
		"UPDATE key SET multivalued = 1 WHERE id = ?",
	}
}

func (c *creator) newEventWriter(ctx context.Context, tx *sql.Tx, changes tallyChanges) (w *eventWriter, err error) {
	w = &eventWriter{tx: tx, changes: changes, keys: keyIDs{cached: map[[2]string]*cachedKey{}}}
	into := []**sql.Stmt{
		&w.insertEvent, &w.insertDocument, &w.insertText, &w.insertTerm, &w.insertNumber, &w.selectStream, &w.keys.selectKey, &w.keys.insertStatement,
		&w.keys.markMultivalued,
	}
	for i, text := range c.layout.eventStatements() {
		if *into[i], err = c.statementIn(ctx, tx, text); err != nil {
			return nil, err
		}
	}
	w.compressor, err = c.newestCompressor(ctx, tx)
	return w, err
}

// create relies on there being one writer at a time: no other writes the id after it was
// not found.
func (w *eventWriter) create(ctx context.Context, l layout, e parsedDocument) (eventstore.Result, error) {
	result := eventstore.Result{Status: eventstore.Conflict}
	err := w.selectStream.QueryRowContext(ctx, e.id).Scan(&result.Index)
	if !errors.Is(err, sql.ErrNoRows) {
		return result, err
	}
	return eventstore.Result{Status: eventstore.Created}, w.insert(ctx, l, 0, e)
}

// insert writes an event to all tables, with the next n if it is 0.
func (w *eventWriter) insert(ctx context.Context, l layout, n int64, e parsedDocument) error {
	written, err := w.insertEvent.ExecContext(ctx, l.eventRow(n, e)...)
	if err != nil {
		return err
	}
	if n, err = written.LastInsertId(); err != nil {
		return err
	}
	w.changes.add(l.tallyRow(e), 1)
	if err := w.insertParts(ctx, n, e); err != nil {
		return err
	}
	if n+1 < nextDictionary(w.compressor.dictionary) {
		return nil
	}
	return w.renewDictionary(ctx, n+1)
}

// eventRow returns the arguments of insertEventSQL. The usual id, of the source and the
// fingerprint, is not written twice.
func (l layout) eventRow(n int64, e parsedDocument) []any {
	row := append([]any{sql.NullInt64{Int64: n, Valid: n != 0}, e.stream.Base() == schemas.Failures, keptIn(e.stream)}, e.values...)
	source, _ := e.values[l.columnIndex["watership.source"]].(string)
	fingerprint, known := e.values[l.columnIndex["watership.fingerprint"]].(string)
	if known && e.id == source+":"+fingerprint {
		row[3+l.columnIndex["event.id"]] = nil
	}
	return row
}

// keptIn returns the value of the column kept_in.
func keptIn(stream schemas.Stream) sql.NullString {
	return sql.NullString{String: string(stream), Valid: stream != stream.Base()}
}

// insertParts writes an event to all tables but event.
func (w *eventWriter) insertParts(ctx context.Context, n int64, e parsedDocument) error {
	stored := e.compressedBy(w.compressor).compressed
	if _, err := w.insertDocument.ExecContext(ctx, n, stored[0], stored[1]); err != nil {
		return err
	}
	if e.hasText() {
		if _, err := w.insertText.ExecContext(ctx, append([]any{n}, e.words...)...); err != nil {
			return err
		}
	}
	return w.insertTerms(ctx, n, e.terms)
}

// insertTerms writes the texts to the table term, and the other values to number.
func (w *eventWriter) insertTerms(ctx context.Context, n int64, terms []term) error {
	var tokens []byte
	for _, t := range terms {
		key, err := w.keys.id(ctx, t, n)
		if err != nil {
			return err
		}
		if text, ok := t.value.(string); ok {
			tokens = append(tokens, keyBeginning(key)...)
			tokens = append(tokens, analyzer.Keyword(text)...)
			tokens = append(tokens, ' ')
			continue
		}
		if _, err := w.insertNumber.ExecContext(ctx, key, t.value, n); err != nil {
			return err
		}
	}
	if len(tokens) == 0 {
		return nil
	}
	_, err := w.insertTerm.ExecContext(ctx, n, string(tokens))
	return err
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
	selectKey, insertStatement, markMultivalued *sql.Stmt
	cached                                      map[[2]string]*cachedKey
}

// cachedKey is a row of the table key.
type cachedKey struct {
	id          int64
	multivalued bool
	last        int64 // n of the last event with a value
}

// id returns the id of the key of a value of an event, and notes that the event has several.
func (k keyIDs) id(ctx context.Context, t term, n int64) (int64, error) {
	name := [2]string{t.field, t.name}
	key := k.cached[name]
	if key == nil {
		key = &cachedKey{}
		err := k.selectKey.QueryRowContext(ctx, t.field, t.name).Scan(&key.id, &key.multivalued)
		if errors.Is(err, sql.ErrNoRows) {
			key.id, err = k.insertKey(ctx, t)
		}
		if err != nil {
			return 0, err
		}
		k.cached[name] = key
	}
	if key.last == n && !key.multivalued {
		if _, err := k.markMultivalued.ExecContext(ctx, key.id); err != nil {
			return 0, err
		}
		key.multivalued = true
	}
	key.last = n
	return key.id, nil
}

func (k keyIDs) insertKey(ctx context.Context, t term) (int64, error) {
	made, err := k.insertStatement.ExecContext(ctx, t.field, t.name)
	if err != nil {
		return 0, err
	}
	return made.LastInsertId()
}
