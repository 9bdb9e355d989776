package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// factsOf selects what a schemas.Fact has, in the order of scanFact.
const factsOf = `SELECT "event.id", "event.sequence", "@timestamp",
	coalesce("watership.quarantined_action", "event.action"), "watership.fingerprint",
	"messaging.message.id", "watership.message", "watership.queue", "watership.class", "error.type",
	"watership.error_group", "watership.replay.job", "watership.replay.of"
	FROM event WHERE n = ?`

// Facts reads the facts of a selection in the order BySequence: of the events
// that have one of the values in one of the fields, or of all where none are
// given. Like Events it reads what is there when it begins.
func (s *Store) Facts(ctx context.Context, sel schemas.Selection, either ...schemas.Among) iter.Seq2[schemas.Fact, error] {
	const doing = "reading what events are about"
	sel.Order = schemas.BySequence
	return func(yield func(schemas.Fact, error) bool) {
		numbers, err := s.numbers(ctx, doing, sel, s.among(either)...)
		if err != nil {
			yield(schemas.Fact{}, err)
			return
		}
		read, err := s.readers.PrepareContext(ctx, factsOf)
		if err != nil {
			yield(schemas.Fact{}, s.failed(doing, err))
			return
		}
		defer read.Close()
		for _, n := range numbers {
			fact, err := scanFact(read.QueryRowContext(ctx, n))
			if errors.Is(err, sql.ErrNoRows) {
				continue // too old by now
			}
			if !yield(fact, s.failed(doing, err)) || err != nil {
				return
			}
		}
	}
}

func (s *Store) among(either []schemas.Among) []condition {
	if len(either) == 0 {
		return nil
	}
	conditions := make([]condition, len(either))
	for i, a := range either {
		field, _ := s.layout.fields.Lookup(a.Field)
		conditions[i] = s.layout.holds(s.layout.place(field), among(a.Values))
	}
	return []condition{eachBy(conditions)}
}

func scanFact(row *sql.Row) (schemas.Fact, error) {
	var fact schemas.Fact
	var millis int64
	texts := make([]sql.NullString, 10)
	err := row.Scan(&fact.EventID, &fact.Sequence, &millis, &texts[0], &texts[1], &texts[2], &texts[3], &texts[4],
		&texts[5], &texts[6], &texts[7], &texts[8], &texts[9])
	for i, into := range []*string{
		(*string)(&fact.Action), &fact.Fingerprint, &fact.MessageID, &fact.Message, &fact.Queue,
		&fact.Class, &fact.ErrorType, &fact.ErrorGroup, &fact.Replay, &fact.ReplayOf,
	} {
		*into = texts[i].String
	}
	fact.Time = time.UnixMilli(millis).UTC()
	return fact, err
}
