package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// Events reads what a selection finds, as it is when the reading begins: events
// that are created meanwhile are not among them, however long it takes. Those
// that Retain removes meanwhile are left out.
//
// An error that is a *schemas.StoreError ends the reading. Any other is about a
// single document that cannot be read as an event, and names it; the reading
// goes on if the caller does.
func (s *Store) Events(ctx context.Context, sel schemas.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for stored, err := range s.stored(ctx, sel) {
			if err != nil {
				yield(schemas.Event{}, err)
				return
			}
			if !yield(stored.event(!sel.WithoutBody)) {
				return
			}
		}
	}
}

// stored is a document as it is in the file.
type stored struct {
	id, stream string
	head, body []byte
}

func (s *Store) stored(ctx context.Context, sel schemas.Selection) iter.Seq2[stored, error] {
	const doing = "reading events"
	return func(yield func(stored, error) bool) {
		numbers, err := s.numbers(ctx, doing, sel)
		if err != nil {
			yield(stored{}, err)
			return
		}
		read, err := s.readers.PrepareContext(ctx, documentOf(!sel.WithoutBody))
		if err != nil {
			yield(stored{}, s.failed(doing, err))
			return
		}
		defer read.Close()
		for _, n := range numbers {
			var found stored
			err := read.QueryRowContext(ctx, n).Scan(&found.id, &found.stream, &found.head, &found.body)
			if errors.Is(err, sql.ErrNoRows) {
				continue // too old by now
			}
			if !yield(found, s.failed(doing, err)) || err != nil {
				return
			}
		}
	}
}

// documentOf selects a document, with its body only if that is wanted: it may be
// a thousand times as long.
func documentOf(whole bool) string {
	body := "NULL"
	if whole {
		body = "body"
	}
	return `SELECT "event.id", stream, head, ` + body + ` FROM event JOIN document USING (n) WHERE n = ?`
}

func (d stored) document() schemas.Document {
	return schemas.Document{ID: d.id, Stream: schemas.Stream(d.stream), Source: slices.Concat(d.head, d.body)}
}

func (d stored) event(whole bool) (schemas.Event, error) {
	source := append(d.head, d.body...)
	if !whole {
		source = append(d.head, '}')
	}
	event, err := schemas.ParseDocument(source)
	if err != nil {
		return schemas.Event{}, fmt.Errorf("document %q of stream %s: %w", d.id, d.stream, err)
	}
	return event, nil
}
