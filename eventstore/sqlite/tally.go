package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// tallyPeriod is the length of the periods of the table tally, in milliseconds.
const tallyPeriod = int64(5 * time.Minute / time.Millisecond)

// tallyRow is the key of a row of the table tally: the events of one period with one action and queue, which are nil or a text.
type tallyRow struct {
	period        int64
	action, queue any
}

// tallyRow returns the row that counts an event.
func (l layout) tallyRow(e parsedDocument) tallyRow {
	millis, _ := e.values[l.columnIndex["@timestamp"]].(int64)
	return tallyRow{millis / tallyPeriod, e.values[l.columnIndex["event.action"]], e.values[l.columnIndex["watership.queue"]]}
}

// tallyChanges are the numbers of events that a transaction adds to rows of the table tally.
type tallyChanges map[tallyRow]int64

func (c tallyChanges) add(of tallyRow, events int64) { c[of] += events }

// Statements that change the table tally.
const (
	addToTally      = "INSERT INTO tally VALUES (?, coalesce(?, 0), coalesce(?, 0), ?) ON CONFLICT DO UPDATE SET events = events + excluded.events"
	removeFromTally = "DELETE FROM tally WHERE period = ? AND action = coalesce(?, 0) AND queue = coalesce(?, 0) AND events = 0"
)

// saveTally writes the changes of a transaction before its end.
func (f *file) saveTally(ctx context.Context, tx *sql.Tx, changes tallyChanges) error {
	add, err := f.statementIn(ctx, tx, addToTally)
	if err != nil {
		return err
	}
	for of, events := range changes {
		if _, err := add.ExecContext(ctx, of.period, of.action, of.queue, events); err != nil {
			return err
		}
		if events > 0 {
			continue
		}
		if _, err := tx.ExecContext(ctx, removeFromTally, of.period, of.action, of.queue); err != nil {
			return err
		}
	}
	return nil
}

// writeEvents is write for a transaction that writes or removes events, which it counts in changes.
func (f *file) writeEvents(ctx context.Context, operation string, do func(tx *sql.Tx, changes tallyChanges) error) error {
	return f.write(ctx, operation, func(tx *sql.Tx) error {
		changes := tallyChanges{}
		if err := do(tx, changes); err != nil {
			return err
		}
		return f.saveTally(ctx, tx, changes)
	})
}

// tallied is a selection whose events the table tally counts: by their time, their action and their queue. The events
// of the periods in which it begins and ends are counted by themselves.
type tallied struct {
	filter   condition // on the action and the queue
	from, to int64     // milliseconds since 1970, without to; the lowest and the highest int64: no bound
}

// tallied returns a selection as a tallied one. It is false if its conditions are on other fields, and if it has no whole
// period.
func (c compiler) tallied(sel eventstore.Selection) (tallied, bool) {
	t := tallied{from: math.MinInt64, to: math.MaxInt64}
	if sel.UpTo != 0 || sel.After != (eventstore.Cursor{}) {
		return t, false
	}
	var others kql.And
	if !t.addAll(c, sel.Query, &others) {
		return t, false
	}
	filter, err := c.compile(others)
	t.filter = filter
	return t, err == nil && !strings.Contains(filter.sql, "SELECT") && t.isLong()
}

// addAll adds a node whose parts must all be met: those on the time to the bounds, and others to a list. It is false if
// one is on another field.
func (t *tallied) addAll(c compiler, node kql.Node, others *kql.And) bool {
	switch n := node.(type) {
	case nil, kql.All:
		return true
	case kql.And:
		return !slices.ContainsFunc(n, func(part kql.Node) bool { return !t.addAll(c, part, others) })
	case kql.Range:
		if n.Field.Text() != "@timestamp" || n.Field.Wild() {
			return false
		}
		t.bound(n.Op, c.parseMillis(n.Value.Pattern.Text(), n.Op.End()))
		return true
	}
	if every, err := c.compile(node); err == nil && every.sql == "TRUE" {
		return true
	}
	*others = append(*others, node)
	return isOfTally(node)
}

func (t *tallied) bound(op kql.Op, millis int64) {
	switch op {
	case kql.GreaterOrEqual:
		t.from = max(t.from, millis)
	case kql.Greater:
		t.from = max(t.from, millis+1)
	case kql.Less:
		t.to = min(t.to, millis)
	case kql.LessOrEqual:
		t.to = min(t.to, millis+1)
	}
}

// isOfTally reports whether the conditions of a node are on columns of the table tally.
func isOfTally(node kql.Node) bool {
	isOther := func(part kql.Node) bool { return !isOfTally(part) }
	var field kql.Pattern
	switch n := node.(type) {
	case kql.And:
		return !slices.ContainsFunc(n, isOther)
	case kql.Or:
		return !slices.ContainsFunc(n, isOther)
	case kql.Not:
		return isOfTally(n.Node)
	case kql.Is:
		field = n.Field
	case kql.Exists:
		field = n.Field
	}
	return field != nil && !field.Wild() && (field.Text() == "event.action" || field.Text() == "watership.queue")
}

// periods returns the first of the whole periods, and the one after the last.
func (t tallied) periods() (first, end int64) {
	first, end = math.MinInt64, math.MaxInt64
	if t.from != math.MinInt64 {
		first = (t.from + tallyPeriod - 1) / tallyPeriod
	}
	if t.to != math.MaxInt64 {
		end = t.to / tallyPeriod
	}
	return first, end
}

// isLong reports whether a selection has whole periods, and does not begin or end before 1970, where periods are rounded otherwise.
func (t tallied) isLong() bool {
	first, end := t.periods()
	return first < end && (t.from == math.MinInt64 || t.from > 0) && t.to > 0
}

// sql is a SELECT of the numbers of events, in a column named events, by the columns "@timestamp", "event.action" and
// "watership.queue". The time of the events of a period is its begin.
func (t tallied) sql() (text string, args []any) {
	first, end := t.periods()
	parts := []string{`SELECT "@timestamp", "event.action", "watership.queue", events FROM (SELECT period * ? AS "@timestamp",
		nullif(action, 0) AS "event.action", nullif(queue, 0) AS "watership.queue", events FROM tally WHERE period >= ? AND period < ?) AS event WHERE ` + t.filter.sql}
	args = slices.Concat([]any{tallyPeriod, first, end}, t.filter.args)
	edge := func(from, to int64) {
		parts = append(parts, `SELECT "@timestamp", "event.action", "watership.queue", 1 FROM event WHERE "@timestamp" >= ? AND "@timestamp" < ? AND (`+t.filter.sql+")")
		args = slices.Concat(args, []any{from, to}, t.filter.args)
	}
	if t.from != math.MinInt64 {
		edge(t.from, first*tallyPeriod)
	}
	if t.to != math.MaxInt64 {
		edge(end*tallyPeriod, t.to)
	}
	return strings.Join(parts, " UNION ALL "), args
}

// count counts the events.
func (t tallied) count(ctx context.Context, from queryer) (n int64, err error) {
	counts, args := t.sql()
	return n, from.QueryRowContext(ctx, "SELECT coalesce(sum(events), 0) FROM ("+counts+")", args...).Scan(&n)
}

// during limits a selection to steps of time. It is false if a period may belong to two of them.
func (t tallied) during(over eventstore.Steps) (tallied, bool) {
	if over.Begin.UnixMilli()%tallyPeriod != 0 || over.Length.Milliseconds()%tallyPeriod != 0 {
		return t, false
	}
	t.bound(kql.GreaterOrEqual, over.At(0).UnixMilli())
	t.bound(kql.Less, over.At(over.Count).UnixMilli())
	return t, t.isLong()
}

// countSteps counts the events of each step by their actions.
func (t tallied) countSteps(ctx context.Context, tx *sql.Tx, over eventstore.Steps) (map[string][]int64, error) {
	counted, args := t.sql()
	rows, err := tx.QueryContext(ctx, `SELECT ("@timestamp" - ?) / ? AS step, coalesce("event.action", ''), sum(events) FROM (`+counted+") GROUP BY 1, 2",
		slices.Concat([]any{over.Begin.UnixMilli(), over.Length.Milliseconds()}, args)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[string][]int64{}
	for rows.Next() {
		var step, n int64
		var action string
		if err := rows.Scan(&step, &action, &n); err != nil {
			return nil, err
		}
		if counts[action] == nil {
			counts[action] = make([]int64, over.Count)
		}
		counts[action][step] += n
	}
	return counts, rows.Err()
}
