package sqlite

import (
	"context"
	"database/sql"
	"slices"
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
	statement := "SELECT count(*) FROM event WHERE " + filter.sql
	if filter.list != "" { // which is of events alone, so that none has to be read
		statement = "SELECT count(DISTINCT n) FROM (" + filter.list + ")"
	}
	var count int64
	row := s.readers.QueryRowContext(ctx, statement, filter.args...)
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
	if sel.Order == schemas.NewestFirst && sel.Limit > 0 {
		numbers, err := s.newest(ctx, filter, sel.Limit)
		if err != nil || len(numbers) == sel.Limit {
			return numbers, s.failed(doing, err)
		}
	}
	statement := "SELECT event.n FROM event WHERE " + filter.sql + " ORDER BY " + order(sel.Order)
	if sel.Limit > 0 {
		statement += " LIMIT ?"
		filter.args = append(filter.args, sel.Limit)
	}
	numbers, err := read(ctx, s.readers, statement, filter.args)
	return numbers, s.failed(doing, err)
}

// amongNewest is how many events for each that is wanted are looked at first.
// What is less frequent is found faster by its own index.
const amongNewest = 100

// newest looks for events of a condition among the newest of all, and may so
// find fewer than there are: of what many events have, a list from the first on
// would be long.
func (s *Store) newest(ctx context.Context, filter condition, limit int) (numbers []int64, err error) {
	all := "SELECT n FROM event ORDER BY " + order(schemas.NewestFirst) + " LIMIT ?"
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // it has changed nothing
	var first sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT min(n) FROM ("+all+")", amongNewest*limit).Scan(&first); err != nil {
		return nil, err
	}
	statement := "WITH newest AS MATERIALIZED (" + all + ") SELECT event.n FROM newest CROSS JOIN event USING (n) WHERE " + filter.sql +
		" ORDER BY " + order(schemas.NewestFirst) + " LIMIT ?"
	args := slices.Concat([]any{amongNewest * limit}, filter.from(first.Int64).args, []any{limit})
	return read(ctx, tx, statement, args)
}

type reader interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

func read(ctx context.Context, from reader, statement string, args []any) ([]int64, error) {
	rows, err := from.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var numbers []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, rows.Err()
}

func order(by schemas.Order) string {
	if by == schemas.BySequence {
		return `"event.sequence", "event.id"`
	}
	return `"@timestamp" DESC, "event.sequence" DESC, "event.id"`
}
