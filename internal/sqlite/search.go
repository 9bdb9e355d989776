package sqlite

import (
	"context"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// filter is the condition of what a selection wants.
func (s *Store) filter(doing string, sel schemas.Selection) (condition, error) {
	asked, err := compiler{s.layout, time.Now()}.compile(sel.Query)
	if err != nil {
		return asked, &schemas.StoreError{Kind: schemas.StoreRefused, Reason: doing, Err: err}
	}
	conditions := []condition{asked}
	if sel.UpTo != 0 {
		conditions = append(conditions, where(`"event.sequence" <= ?`, sel.UpTo))
	}
	if sel.Order == schemas.BySequence && sel.After != (schemas.Cursor{}) {
		conditions = append(conditions, where(`("event.sequence", "event.id") > (?, ?)`, sel.After.Sequence, sel.After.EventID))
	}
	if filter := allOf(conditions); len(filter.args) <= mostArguments {
		return filter, nil
	}
	return condition{}, &schemas.StoreError{
		Kind: schemas.StoreRefused, Reason: doing + ": the query asks for too many values at once: ask in several queries",
	}
}

// mostArguments leaves a few of SQLite's limit, 32,766, for what else a statement
// needs (https://www.sqlite.org/limits.html#max_variable_number).
const mostArguments = 32_000

// Count says how many events a selection has. Order, Limit and WithoutBody do
// not matter to it.
func (s *Store) Count(ctx context.Context, sel schemas.Selection) (int64, error) {
	const doing = "counting events"
	filter, err := s.filter(doing, sel)
	if err != nil {
		return 0, err
	}
	var count int64
	row := s.readers.QueryRowContext(ctx, "SELECT count(*) FROM event WHERE "+filter.sql, filter.args...)
	return count, s.failed(doing, row.Scan(&count))
}

// numbers are those of the events that a selection has, in its order. They are
// the stable view of a reading: what is written meanwhile is not among them, and
// the file is not held while a reader takes hours. They take 8 bytes an event.
func (s *Store) numbers(ctx context.Context, doing string, sel schemas.Selection, more ...condition) ([]int64, error) {
	filter, err := s.filter(doing, sel)
	if err != nil {
		return nil, err
	}
	filter = allOf(append(more, filter))
	statement := "SELECT event.n FROM event WHERE " + filter.sql + " ORDER BY " + order(sel.Order)
	if sel.Limit > 0 {
		statement += " LIMIT ?"
		filter.args = append(filter.args, sel.Limit)
	}
	rows, err := s.readers.QueryContext(ctx, statement, filter.args...)
	if err != nil {
		return nil, s.failed(doing, err)
	}
	defer rows.Close()
	var numbers []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, s.failed(doing, err)
		}
		numbers = append(numbers, n)
	}
	return numbers, s.failed(doing, rows.Err())
}

func order(by schemas.Order) string {
	if by == schemas.BySequence {
		return `"event.sequence", "event.id"`
	}
	return `"@timestamp" DESC, "event.sequence" DESC, "event.id"`
}
