package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Histogram counts the events of a selection by a date field, in at most n steps of
// equal and round length, the earliest first. Days begin at midnight in the zone,
// with the UTC offset of the latest event.
func (r *reader) Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error) {
	operation := "counting events over " + field
	mapped, _ := r.layout.fields.Lookup(field)
	if mapped.Type != kql.Date {
		return eventstore.Aggregation{}, cannotAggregate(operation, mapped)
	}
	values, err := r.newFieldValues(operation, sel, mapped)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	var aggregation eventstore.Aggregation
	err = r.readTx(ctx, operation, func(tx *sql.Tx) (err error) {
		if aggregation.Values, err = values.histogram(ctx, tx, n, zone); err != nil {
			return err
		}
		aggregation.Without, err = values.countMissing(ctx, tx, r.layout, aggregation)
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
	over := eventstore.NewSteps(time.UnixMilli(first.Int64), time.UnixMilli(last.Int64), n, zone)
	counts, err := v.countOver(ctx, tx, over)
	return over.Buckets(counts), err
}

// countOver counts the values in each step.
func (v fieldValues) countOver(ctx context.Context, tx *sql.Tx, over eventstore.Steps) ([]int64, error) {
	if v.location.column == "@timestamp" && v.tally != nil {
		if t, is := v.tally.during(over); is {
			byAction, err := t.countSteps(ctx, tx, over)
			return sumOf(over.Count, byAction), err
		}
	}
	if v.location.column == "@timestamp" && !strings.Contains(v.filter.sql, "SELECT") {
		return v.countRanges(ctx, tx, over)
	}
	return v.countSteps(ctx, tx, over)
}

// sumOf adds the counts of steps.
func sumOf(steps int, of map[string][]int64) []int64 {
	sum := make([]int64, steps)
	for _, counts := range of {
		for i, n := range counts {
			sum[i] += n
		}
	}
	return sum
}

// countRanges counts each step by an index of the times, without sorting the events.
func (v fieldValues) countRanges(ctx context.Context, tx *sql.Tx, over eventstore.Steps) ([]int64, error) {
	statement, err := tx.PrepareContext(ctx, `SELECT count(*) FROM event WHERE "@timestamp" >= ? AND "@timestamp" < ? AND (`+v.filter.sql+")")
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	counts := make([]int64, over.Count)
	for i := range counts {
		args := append([]any{over.At(i).UnixMilli(), over.At(i + 1).UnixMilli()}, v.filter.args...)
		if err := statement.QueryRowContext(ctx, args...).Scan(&counts[i]); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// countSteps reads the values once and sorts them by their steps.
func (v fieldValues) countSteps(ctx context.Context, tx *sql.Tx, over eventstore.Steps) ([]int64, error) {
	begin, end := over.Begin.UnixMilli(), over.At(over.Count).UnixMilli()
	step := fmt.Sprintf("(value - %d) / %d", begin, over.Length.Milliseconds())
	rows, err := tx.QueryContext(ctx, fmt.Sprintf("SELECT %s AS step, count(*) FROM (%s) WHERE value >= %d AND value < %d GROUP BY step", step, v.sql, begin, end), v.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := make([]int64, over.Count)
	for rows.Next() {
		var at, count int64
		if err := rows.Scan(&at, &count); err != nil {
			return nil, err
		}
		counts[at] = count
	}
	return counts, rows.Err()
}

// HistogramByAction counts the events of a selection with one of the actions in each step
// of time: for each action a list with a count for each step.
func (r *reader) HistogramByAction(ctx context.Context, sel eventstore.Selection, over eventstore.Steps, actions []schemas.Action) ([][]int64, error) {
	operation := "counting events by time and action"
	at, _ := r.layout.fields.Lookup("@timestamp")
	counts := make([][]int64, len(actions))
	err := r.readTx(ctx, operation, func(tx *sql.Tx) error {
		if t, is := r.layout.compiler().tallied(sel); is {
			if t, is = t.during(over); is {
				byAction, err := t.countSteps(ctx, tx, over)
				for i, action := range actions {
					counts[i] = sumOf(over.Count, map[string][]int64{"": byAction[string(action)]})
				}
				return err
			}
		}
		for i, action := range actions {
			of := sel
			of.Query = kql.And{kql.FieldIs("event.action", string(action)), cmp.Or[kql.Node](sel.Query, kql.All{})}
			values, err := r.newFieldValues(operation, of, at)
			if err != nil {
				return err
			}
			if counts[i], err = values.countOver(ctx, tx, over); err != nil {
				return err
			}
		}
		return nil
	})
	return counts, err
}

// FirstTime returns the earliest time of the events of a selection; zero if none exists.
func (r *reader) FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error) {
	operation := "looking for the first event"
	filter, err := r.filter(operation, sel)
	if err != nil {
		return time.Time{}, err
	}
	var first sql.NullInt64
	row := r.readers.QueryRowContext(ctx, `SELECT min("@timestamp") FROM event WHERE `+filter.sql, filter.args...)
	if err := row.Scan(&first); err != nil || !first.Valid {
		return time.Time{}, r.storeError(operation, err)
	}
	return time.UnixMilli(first.Int64).UTC(), nil
}
