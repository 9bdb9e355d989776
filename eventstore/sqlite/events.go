package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Events reads the events of a selection from a snapshot: those that are created
// during the reading are not included, however long it takes. Those that Retain
// removes during the reading are left out.
//
// A *eventstore.Error ends the reading. Any other error is about a single
// document that is not a valid event, and names it; the caller can go on reading.
func (r *reader) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for stored, err := range r.documents(ctx, sel) {
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

// storedDocument is a row of event and document.
type storedDocument struct {
	id, stream string
	head, body []byte
	broken     error // of a document that cannot be decompressed
}

func (r *reader) documents(ctx context.Context, sel eventstore.Selection) iter.Seq2[storedDocument, error] {
	const operation = "reading events"
	return func(yield func(storedDocument, error) bool) {
		numbers, err := r.selectNumbers(ctx, operation, sel)
		if err != nil {
			yield(storedDocument{}, err)
			return
		}
		read, err := r.reading.get(ctx, selectDocument(!sel.WithoutBody))
		if err != nil {
			yield(storedDocument{}, r.storeError(operation, err))
			return
		}
		for _, n := range numbers {
			var found storedDocument
			err := found.read(ctx, r.decompressors, r.readers, read.QueryRowContext(ctx, n))
			if errors.Is(err, sql.ErrNoRows) {
				continue // Retain has removed it
			}
			if !yield(found, r.storeError(operation, err)) || err != nil {
				return
			}
		}
	}
}

// selectDocument leaves out the body on request, which can be a thousand times as
// long as the rest.
func selectDocument(withBody bool) string {
	body := "NULL"
	if withBody {
		body = "body"
	}
	return `SELECT "event.id", stream, head, ` + body + `, (SELECT max(dictionary.n) FROM dictionary WHERE dictionary.n <= document.n)
		FROM event JOIN document USING (n) WHERE n = ?`
}

// read reads a row of selectDocument.
func (d *storedDocument) read(ctx context.Context, known *decompressors, from queryer, row *sql.Row) error {
	var head, body []byte
	var dictionary sql.NullInt64
	if err := row.Scan(&d.id, &d.stream, &head, &body, &dictionary); err != nil {
		return err
	}
	decompressor, err := known.decompressor(ctx, from, dictionary.Int64)
	if err != nil {
		return err
	}
	if d.head, d.broken = decompressor.Decompress(head); d.broken == nil {
		d.body, d.broken = decompressor.Decompress(body)
	}
	return nil
}

func (d storedDocument) event(withBody bool) (schemas.Event, error) {
	source := append(d.head, d.body...)
	if !withBody {
		source = append(d.head, '}')
	}
	event, err := schemas.ParseDocument(source)
	if err = cmp.Or(d.broken, err); err != nil {
		return schemas.Event{}, fmt.Errorf("document %q of stream %s: %w", d.id, d.stream, err)
	}
	if !withBody {
		event.Envelope.Body = nil // of a document in which it is not the last member
	}
	return event, nil
}
