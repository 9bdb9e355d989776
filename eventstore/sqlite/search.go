package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// reader reads events.
type reader struct {
	*file
	decompressors *decompressors
}

func (l layout) compiler() compiler { return compiler{l, time.Now()} }

// filter compiles a selection.
func (r *reader) filter(operation string, sel eventstore.Selection) (condition, error) {
	compiled, err := r.layout.compiler().compile(sel.Query)
	if err != nil {
		return compiled, &eventstore.Error{Kind: eventstore.BadRequest, Reason: operation, Err: err}
	}
	conditions := []condition{compiled}
	if sel.UpTo != 0 {
		conditions = append(conditions, where(`"event.sequence" <= ?`, sel.UpTo))
	}
	if sel.After != (eventstore.Cursor{}) {
		conditions = append(conditions, afterCursor(sel))
	}
	if filter := allOf(conditions); len(filter.args) <= maxArguments {
		return filter, nil
	}
	return condition{}, &eventstore.Error{
		Kind: eventstore.BadRequest, Reason: operation + ": the query has too many values: split it into several",
	}
}

// afterCursor matches the events after the cursor of a selection, in its order.
func afterCursor(sel eventstore.Selection) condition {
	c := sel.After
	switch {
	case c == (eventstore.Cursor{}):
		return where("TRUE")
	case sel.Order == eventstore.BySequence:
		return where(`("event.sequence", "event.id") > (?, ?)`, c.Sequence, c.EventID)
	}
	if field := sel.Order.Time(); field != "" {
		took := c.Took(sel.Order).Nanoseconds()
		return where(fmt.Sprintf(`(%[1]s <= ? AND (%[1]s < ? OR "event.sequence" < ? OR "event.sequence" = ? AND "event.id" > ?))`, quoteName(field)),
			took, took, c.Sequence, c.Sequence, c.EventID)
	}
	millis := c.Time.UnixMilli()
	return where(`("@timestamp" <= ? AND ("@timestamp" < ? OR "event.sequence" < ? OR "event.sequence" = ? AND "event.id" > ?))`,
		millis, millis, c.Sequence, c.Sequence, c.EventID)
}

// maxArguments is SQLite's limit of 32,766, less some for the rest of a statement
// (https://www.sqlite.org/limits.html#max_variable_number).
const maxArguments = 32_000

// Count counts the events of a selection. It ignores Order, Limit and WithoutBody.
func (r *reader) Count(ctx context.Context, sel eventstore.Selection) (int64, error) {
	const operation = "counting events"
	unbounded := sel
	unbounded.UpTo = 0
	filter, err := r.filter(operation, unbounded)
	if err != nil {
		return 0, err
	}
	if t, is := r.layout.compiler().tallied(sel); is {
		count, err := t.count(ctx, r.readers)
		return count, r.storeError(operation, err)
	}
	if sel.UpTo != 0 {
		filter = allOf([]condition{filter, countedUpTo(sel)})
	}
	var count int64
	row := r.readers.QueryRowContext(ctx, filter.countSQL(), filter.args...)
	return count, r.storeError(operation, row.Scan(&count))
}

// countedUpTo matches the events up to the highest sequence of a selection. Without a cursor these are most events, so that
// SQLite should use the index of another condition.
func countedUpTo(sel eventstore.Selection) condition {
	if sel.After != (eventstore.Cursor{}) {
		return where(`"event.sequence" <= ?`, sel.UpTo)
	}
	return where(`likelihood("event.sequence" <= ?, 0.99)`, sel.UpTo)
}

// countSQL counts the events of a condition, without reading them if a subquery finds them.
func (c condition) countSQL() string {
	switch {
	case c.subquery == "":
		return "SELECT count(*) FROM event WHERE " + c.sql
	case c.once:
		return "SELECT count(*) FROM (" + c.subquery + ")"
	}
	return "SELECT count(DISTINCT n) FROM (" + c.subquery + ")"
}

// selectNumbers returns n of the selected events, in order. They are the snapshot of a
// reading: later events are not included, and no transaction stays open while a reader
// takes hours. They take 8 bytes an event.
func (r *reader) selectNumbers(ctx context.Context, operation string, sel eventstore.Selection, conditions ...condition) ([]int64, error) {
	filter, err := r.filter(operation, sel)
	if err != nil {
		return nil, err
	}
	if field := sel.Order.Time(); field != "" {
		conditions = append(conditions, where(quoteName(field)+" IS NOT NULL"))
	}
	filter = allOf(append(conditions, filter))
	if sel.Order == eventstore.NewestFirst && sel.Limit > 0 {
		numbers, err := r.selectNewest(ctx, filter, sel)
		if err != nil || len(numbers) == sel.Limit {
			return numbers, r.storeError(operation, err)
		}
	}
	if sel.Order == eventstore.BySequence && sel.After.Sequence > 0 {
		numbers, few, err := selectNext(ctx, r.file, filter, sel)
		if err != nil || few {
			return numbers, r.storeError(operation, err)
		}
	}
	statement := "SELECT event.n FROM event WHERE " + filter.sql + " ORDER BY " + orderBy(sel.Order)
	if sel.Limit > 0 {
		statement += " LIMIT ?"
		filter.args = append(filter.args, sel.Limit)
	}
	numbers, err := queryNumbers(ctx, r.readers, statement, filter.args)
	return numbers, r.storeError(operation, err)
}

// nextScanned is the most events after a cursor that selectNext scans.
const nextScanned = 10_000

// selectNext searches only the sequences after the cursor, if there are few: a reader of new events looks
// again and again, and a subquery finds those over the whole file. Otherwise few is false.
func selectNext(ctx context.Context, f *file, filter condition, sel eventstore.Selection) (numbers []int64, few bool, err error) {
	next, scanned := nextSQL(sel)
	look, err := f.reading.get(ctx, "SELECT count(*), min(n) FROM ("+next+")")
	if err != nil {
		return nil, false, err
	}
	tx, err := f.readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, false, err
	}
	defer tx.Rollback() // it only reads
	var count int64
	var first sql.NullInt64
	if err := tx.StmtContext(ctx, look).QueryRowContext(ctx, scanned...).Scan(&count, &first); err != nil {
		return nil, false, err
	}
	if count == 0 || count > nextScanned {
		return nil, count == 0, nil
	}
	statement := "WITH next AS MATERIALIZED (" + next + ") SELECT event.n FROM next CROSS JOIN event USING (n) WHERE " + filter.sql +
		" ORDER BY " + orderBy(eventstore.BySequence)
	args := slices.Concat(scanned, filter.withLowest(first.Int64).args)
	if sel.Limit > 0 {
		statement += " LIMIT ?"
		args = append(args, sel.Limit)
	}
	numbers, err = queryNumbers(ctx, tx, statement, args)
	return numbers, true, err
}

// nextSQL selects n of the first events from the sequence of the cursor of a selection on, and one more than
// selectNext scans. Only the query of the sequences limits them.
func nextSQL(sel eventstore.Selection) (statement string, args []any) {
	upTo := sel.UpTo
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	return `SELECT n FROM event WHERE "event.sequence" BETWEEN ? AND ? LIMIT ?`, []any{sel.After.Sequence, upTo, nextScanned + 1}
}

// Numbers of events that selectNewest scans for each wanted one. Values that are less
// frequent are found faster by their own index; few events have the same id, unless they
// are of many equal messages.
const (
	newestScanned     = 100
	newestScannedByID = 4
)

// selectNewest searches only the newest events after the cursor, and can find fewer than
// there are. For values that many events have, it avoids subqueries over the whole file.
func (r *reader) selectNewest(ctx context.Context, filter condition, sel eventstore.Selection) (numbers []int64, err error) {
	after := afterCursor(sel)
	all := "SELECT n FROM event WHERE " + after.sql + " ORDER BY " + orderBy(eventstore.NewestFirst) + " LIMIT ?"
	perWanted := newestScanned
	if filter.byID {
		perWanted = newestScannedByID
	}
	scanned := append(slices.Clone(after.args), perWanted*sel.Limit)
	tx, err := r.readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // it only reads
	var first sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT min(n) FROM ("+all+")", scanned...).Scan(&first); err != nil {
		return nil, err
	}
	statement := "WITH newest AS MATERIALIZED (" + all + ") SELECT event.n FROM newest CROSS JOIN event USING (n) WHERE " + filter.sql +
		" ORDER BY " + orderBy(eventstore.NewestFirst) + " LIMIT ?"
	args := slices.Concat(scanned, filter.withLowest(first.Int64).args, []any{sel.Limit})
	return queryNumbers(ctx, tx, statement, args)
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row
}

func queryNumbers(ctx context.Context, from queryer, statement string, args []any) ([]int64, error) {
	rows, err := from.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return scanNumbers(rows)
}

func scanNumbers(rows *sql.Rows) (numbers []int64, err error) {
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, rows.Err()
}

func orderBy(by eventstore.Order) string {
	if by == eventstore.BySequence {
		return `"event.sequence", "event.id"`
	}
	if field := by.Time(); field != "" {
		return quoteName(field) + ` DESC, "event.sequence" DESC, "event.id"`
	}
	return `"@timestamp" DESC, "event.sequence" DESC, "event.id"`
}
