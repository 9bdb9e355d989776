package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// selectSummary selects the fields of a eventstore.EventSummary, in the order of scanSummary.
const selectSummary = `SELECT "event.id", "event.sequence", "@timestamp",
	coalesce("watership.quarantined_action", "event.action"), "watership.fingerprint",
	"messaging.message.id", "watership.message", "watership.queue", "watership.class", "error.type",
	"watership.error_group", "watership.replay.job", "watership.replay.of"
	FROM event WHERE n = ?`

// Summaries reads the selected events in the order BySequence, without their documents:
// those with one of the values in one of the fields, or all without such filters. Like
// Events it reads from a snapshot.
func (s *Store) Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	const operation = "reading summaries of events"
	sel.Order = eventstore.BySequence
	return func(yield func(eventstore.EventSummary, error) bool) {
		numbers, err := s.selectNumbers(ctx, operation, sel, s.anyFilter(either)...)
		if err != nil {
			yield(eventstore.EventSummary{}, err)
			return
		}
		read, err := s.readers.PrepareContext(ctx, selectSummary)
		if err != nil {
			yield(eventstore.EventSummary{}, s.storeError(operation, err))
			return
		}
		defer read.Close()
		for _, n := range numbers {
			summary, err := scanSummary(read.QueryRowContext(ctx, n))
			if errors.Is(err, sql.ErrNoRows) {
				continue // Retain has removed it
			}
			if !yield(summary, s.storeError(operation, err)) || err != nil {
				return
			}
		}
	}
}

func (s *Store) anyFilter(either []eventstore.FieldIn) []condition {
	if len(either) == 0 {
		return nil
	}
	conditions := make([]condition, len(either))
	for i, a := range either {
		field, _ := s.layout.fields.Lookup(a.Field)
		conditions[i] = s.layout.hasValue(s.layout.locate(field), oneOf(a.Values))
	}
	return []condition{unionOf(conditions)}
}

func scanSummary(row *sql.Row) (eventstore.EventSummary, error) {
	var summary eventstore.EventSummary
	var millis int64
	texts := make([]sql.NullString, 10)
	err := row.Scan(&summary.EventID, &summary.Sequence, &millis, &texts[0], &texts[1], &texts[2], &texts[3], &texts[4],
		&texts[5], &texts[6], &texts[7], &texts[8], &texts[9])
	for i, into := range []*string{
		(*string)(&summary.Action), &summary.Fingerprint, &summary.MessageID, &summary.Message, &summary.Queue,
		&summary.Class, &summary.ErrorType, &summary.ErrorGroup, &summary.Replay, &summary.ReplayOf,
	} {
		*into = texts[i].String
	}
	summary.Time = time.UnixMilli(millis).UTC()
	return summary, err
}
