package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Replace writes documents in place of quarantined ones in one transaction, and returns a
// result for each, in order:
//
//   - Created: the document is in the store, and the quarantined one no longer is. It may
//     have been replaced before.
//   - Conflict: another event has the document's id. Nothing has changed.
//   - Refused: the document is invalid. The quarantined one is still there. Refused is
//     also the result if there is no such document.
func (c *creator) Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error) {
	results := make([]eventstore.Result, len(list))
	documents := make([]parsedDocument, len(list))
	for i, replacement := range list {
		var err error
		if documents[i], err = c.layout.parse(replacement.Document); err != nil {
			results[i] = eventstore.Result{Status: eventstore.Refused, Reason: oneLineError{err}.Error()}
		}
	}
	err := c.writeEvents(ctx, "replacing quarantined documents", func(tx *sql.Tx, changes tallyChanges) error {
		w, err := c.newEventWriter(ctx, tx, changes)
		if err != nil {
			return err
		}
		for i, replacement := range list {
			if results[i].Status != 0 {
				continue
			}
			if results[i], err = c.replace(ctx, tx, w, replacement.Quarantined, documents[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (c *creator) replace(ctx context.Context, tx *sql.Tx, w *eventWriter, id string, e parsedDocument) (eventstore.Result, error) {
	quarantined, err := findStored(ctx, tx, id)
	if err != nil {
		return eventstore.Result{}, err
	}
	written, err := findStored(ctx, tx, e.id)
	if err != nil {
		return eventstore.Result{}, err
	}
	switch {
	case !quarantined.quarantined && written.n == 0:
		return eventstore.Result{Status: eventstore.Refused, Reason: "the quarantined document is no longer in the store"}, nil
	case !quarantined.quarantined:
		return eventstore.Result{Status: eventstore.Created}, nil
	case written.n != 0 && written.n != quarantined.n && written.sequence != quarantined.sequence:
		return eventstore.Result{Status: eventstore.Conflict, Index: written.stream}, nil
	}
	if err := remove(ctx, tx, w.changes, quarantined.n); err != nil {
		return eventstore.Result{}, err
	}
	if written.n != 0 && written.n != quarantined.n {
		return eventstore.Result{Status: eventstore.Created}, nil
	}
	return w.create(ctx, c.layout, e)
}

// storedEvent is the row of an event; n is 0 if none exists.
type storedEvent struct {
	n, sequence int64
	stream      string
	quarantined bool
}

func findStored(ctx context.Context, tx *sql.Tx, id string) (found storedEvent, err error) {
	row := tx.QueryRowContext(ctx, `SELECT n, "event.sequence", stream, "watership.quarantined_action" IS NOT NULL OR "event.action" = ?1
		FROM event WHERE substr("event.id", -16) = substr(?2, -16) AND "event.id" = ?2`, schemas.Quarantined, id)
	if err = row.Scan(&found.n, &found.sequence, &found.stream, &found.quarantined); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return found, err
}
