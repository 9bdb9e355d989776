package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// selectSummary selects the fields of a eventstore.EventSummary, in the order of scanSummary.
const selectSummary = `SELECT "event.id", "event.sequence", "@timestamp",
	coalesce("watership.quarantined_action", "event.action", ''), coalesce("watership.fingerprint", ''),
	coalesce("messaging.message.id", ''), coalesce("watership.message", ''), coalesce("watership.queue", ''),
	coalesce("watership.class", ''), coalesce("error.type", ''), coalesce("watership.error_group", ''),
	coalesce("watership.replay.job", ''), coalesce("watership.replay.of", ''), coalesce("watership.stream.id", ''),
	"watership.stream.version"
	FROM json_each(?) AS list CROSS JOIN event ON event.n = list.value`

// maxSummariesAtOnce is the number of events that one statement reads. The first reads one,
// for callers that stop early.
const maxSummariesAtOnce = 512

// Summaries reads the selected events in the order BySequence, without their documents:
// those with one of the values in one of the fields, or all without such filters. Like
// Events it reads from a snapshot.
func (r *reader) Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	const operation = "reading summaries of events"
	sel.Order = eventstore.BySequence
	return func(yield func(eventstore.EventSummary, error) bool) {
		numbers, err := r.selectNumbers(ctx, operation, sel, r.anyFilter(either)...)
		if err != nil {
			yield(eventstore.EventSummary{}, err)
			return
		}
		for count := 1; len(numbers) > 0; count = min(2*count, maxSummariesAtOnce) {
			some := numbers[:min(count, len(numbers))]
			numbers = numbers[len(some):]
			summaries, err := r.readSummaries(ctx, some)
			for _, summary := range summaries {
				if !yield(summary, nil) {
					return
				}
			}
			if err != nil {
				yield(eventstore.EventSummary{}, r.storeError(operation, err))
				return
			}
		}
	}
}

// readSummaries leaves out the events that Retain has removed.
func (r *reader) readSummaries(ctx context.Context, numbers []int64) (summaries []eventstore.EventSummary, err error) {
	list, _ := json.Marshal(numbers) // numbers always marshal
	rows, err := r.readers.QueryContext(ctx, selectSummary, string(list))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		summary, err := scanSummary(rows)
		if err != nil {
			return summaries, err
		}
		summaries = append(summaries, summary)
	}
	return summaries, rows.Err()
}

func (r *reader) anyFilter(either []eventstore.FieldIn) []condition {
	if len(either) == 0 {
		return nil
	}
	conditions := make([]condition, len(either))
	for i, a := range either {
		field, _ := r.layout.fields.Lookup(a.Field)
		conditions[i] = r.layout.hasValue(r.layout.locate(field), oneOf(a.Values))
	}
	if len(conditions) == 1 { // indexes for the other conditions of the query count as well
		return conditions
	}
	return []condition{unionOf(conditions)}
}

func scanSummary(row *sql.Rows) (e eventstore.EventSummary, err error) {
	var millis int64
	var version sql.NullInt64
	err = row.Scan(&e.EventID, &e.Sequence, &millis, (*string)(&e.Action), &e.Fingerprint, &e.MessageID, &e.Message, &e.Queue,
		&e.Class, &e.ErrorType, &e.ErrorGroup, &e.Replay, &e.ReplayOf, &e.Stream.ID, &version)
	e.Stream.Version, e.Stream.HasVersion = version.Int64, version.Valid
	e.Time = time.UnixMilli(millis).UTC()
	return e, err
}
