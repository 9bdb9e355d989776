package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// Histogram counts the events of a selection by a date field, in at most n steps of
// equal and round length, the earliest first. Days begin at midnight in the zone,
// with the UTC offset of the latest event.
func (s *Store) Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error) {
	operation := "counting events over " + field
	mapped, _ := s.layout.fields.Lookup(field)
	if mapped.Type != kql.Date {
		return eventstore.Aggregation{}, s.cannotAggregate(operation, mapped)
	}
	values, err := s.newFieldValues(operation, sel, mapped)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	var aggregation eventstore.Aggregation
	err = s.readTx(ctx, operation, func(tx *sql.Tx) (err error) {
		if aggregation.Values, err = values.histogram(ctx, tx, n, zone); err != nil {
			return err
		}
		aggregation.Without, err = values.countMissing(ctx, tx, s.layout, aggregation)
		return err
	})
	return aggregation, err
}

// histogram counts in steps from the first value to the last, empty steps included.
func (v fieldValues) histogram(ctx context.Context, tx *sql.Tx, n int, zone *time.Location) ([]eventstore.Bucket, error) {
	var first, last sql.NullInt64
	row := tx.QueryRowContext(ctx, "SELECT (SELECT min(value) FROM ("+v.sql+")), (SELECT max(value) FROM ("+v.sql+"))", slices.Concat(v.args, v.args)...)
	if err := row.Scan(&first, &last); err != nil || !first.Valid {
		return nil, err
	}
	step := eventstore.RoundStep(time.Duration(last.Int64-first.Int64)*time.Millisecond, n).Milliseconds()
	shift := eventstore.ZoneOffset(zone, last.Int64).Milliseconds()
	begin, end := stepIndex(first.Int64+shift, step), stepIndex(last.Int64+shift, step)
	count := v.countSteps
	if v.location.column == "@timestamp" && !strings.Contains(v.filter.sql, "SELECT") {
		count = v.countRanges
	}
	counts, err := count(ctx, tx, steps{begin, end, step, shift})
	if err != nil {
		return nil, err
	}
	var list []eventstore.Bucket
	for at := begin; at <= end; at++ {
		text := time.UnixMilli(at*step - shift).UTC().Format("2006-01-02T15:04:05.000Z")
		list = append(list, eventstore.Bucket{Text: text, Count: counts[at]})
	}
	return list, nil
}

// steps are the steps of a histogram from one stepIndex to another. Their length and the
// shift of the zone are in milliseconds.
type steps struct{ begin, end, length, shift int64 }

// countRanges counts each step by an index of the times, without sorting the events.
func (v fieldValues) countRanges(ctx context.Context, tx *sql.Tx, over steps) (map[int64]int64, error) {
	statement, err := tx.PrepareContext(ctx, `SELECT count(*) FROM event WHERE "@timestamp" >= ? AND "@timestamp" < ? AND (`+v.filter.sql+")")
	if err != nil {
		return nil, err
	}
	counts := map[int64]int64{}
	for at := over.begin; at <= over.end; at++ {
		var count int64
		begin := at*over.length - over.shift
		args := append([]any{begin, begin + over.length}, v.filter.args...)
		if err := statement.QueryRowContext(ctx, args...).Scan(&count); err != nil {
			return nil, err
		}
		counts[at] = count
	}
	return counts, nil
}

// stepIndex rounds down, also for times before 1970.
func stepIndex(millis, step int64) int64 {
	at := millis / step
	if at*step > millis {
		at--
	}
	return at
}

// countSteps counts the values, each shifted by the zone, by their stepIndex.
func (v fieldValues) countSteps(ctx context.Context, tx *sql.Tx, over steps) (map[int64]int64, error) {
	group := fmt.Sprintf("(value + %d) / %d - ((value + %[1]d) %% %[2]d < 0)", over.shift, over.length)
	rows, err := tx.QueryContext(ctx, "SELECT "+group+" AS step, count(*) FROM ("+v.sql+") GROUP BY step", v.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[int64]int64{}
	for rows.Next() {
		var at, count int64
		if err := rows.Scan(&at, &count); err != nil {
			return nil, err
		}
		counts[at] = count
	}
	return counts, rows.Err()
}
