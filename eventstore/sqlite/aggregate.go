package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// fieldValues is a SELECT of the values of a field, in a column named value, with
// one row for each event and value.
type fieldValues struct {
	filter   condition
	sql      string
	args     []any
	location location
	tally    *tallied // the selection, if the table tally counts it

	// counts is a SELECT of each value with its number of events.
	counts    string
	countArgs []any
	words     bool // its values are words of the table term, which have the order of their values
}

func (r *reader) newFieldValues(operation string, sel eventstore.Selection, field kql.Field) (fieldValues, error) {
	filter, err := r.filter(operation, sel)
	if err != nil {
		return fieldValues{}, err
	}
	v := fieldValues{filter: filter, location: r.layout.locate(field)}
	at := v.location
	keys := at.keyFilter()
	v.args = slices.Concat(keys.args, filter.args)
	inFilter := "IN (SELECT event.n FROM event WHERE " + filter.sql + ")"
	terms := `FROM key CROSS JOIN posting ON posting.term >= printf('%x=', key.id) AND posting.term < printf('%x>', key.id)
		WHERE key.id IN (` + keys.sql + ") AND doc " + inFilter
	switch {
	case at.column != "":
		v.sql = fmt.Sprintf("SELECT %s AS value FROM event WHERE %[1]s IS NOT NULL AND (%s)", quoteName(at.column), filter.sql)
		v.args = filter.args
	case at.field == "":
		v.sql, v.args = "SELECT NULL AS value WHERE FALSE", nil
	case at.numeric:
		v.sql = "SELECT DISTINCT value, n FROM number WHERE key IN (" + keys.sql + ") AND n " + inFilter
	default:
		v.sql = "SELECT DISTINCT term_value(posting.term) AS value, doc AS n " + terms
	}
	v.counts, v.countArgs = "SELECT value, count(*) AS events FROM ("+v.sql+") GROUP BY value", v.args
	if t, is := r.layout.compiler().tallied(sel); is {
		v.tally = &t
	}
	switch {
	case v.tally != nil && (at.column == "event.action" || at.column == "watership.queue"):
		v.counts, v.countArgs = v.tally.sql()
		v.counts = "SELECT " + quoteName(at.column) + " AS value, sum(events) AS events FROM (" + v.counts + ") GROUP BY 1"
	case v.isIndexed():
		v.counts = fmt.Sprintf(`WITH RECURSIVE list (value) AS (SELECT min(%[1]s) FROM event WHERE %[1]s IS NOT NULL
			UNION ALL SELECT (SELECT min(%[1]s) FROM event WHERE %[1]s > value) FROM list WHERE value IS NOT NULL)
			SELECT value, (SELECT count(*) FROM event WHERE %[1]s = value AND (%[2]s)) AS events FROM list`,
			quoteName(at.column), filter.sql)
	case at.field != "" && !at.numeric && !at.allKeys && filter.sql == "TRUE":
		v.words, v.countArgs = true, keys.args
		v.counts = `SELECT term AS value, doc AS events FROM key CROSS JOIN frequency
			ON frequency.term >= printf('%x=', key.id) AND frequency.term < printf('%x>', key.id) WHERE key.id IN (` + keys.sql + ")"
	case at.field != "" && !at.numeric && !at.allKeys:
		v.words = true
		v.counts = "SELECT term AS value, count(*) AS events " + terms + " GROUP BY term"
	}
	return v, nil
}

// isIndexed reports whether the index of the column counts the events of one value by
// itself. A filter with a subquery, such as of headers, would be evaluated for each value.
func (v fieldValues) isIndexed() bool {
	return (v.location.column == "event.action" || v.location.column == "watership.queue") && !strings.Contains(v.filter.sql, "SELECT")
}

// countMissing counts the events without a value. Of a field with a single value each event
// has one of the counted values, or none, and all have a time.
func (v fieldValues) countMissing(ctx context.Context, tx *sql.Tx, l layout, counted eventstore.Aggregation) (n int64, err error) {
	if v.location.column == "@timestamp" {
		return 0, nil
	}
	if v.tally != nil {
		n, err = v.tally.count(ctx, tx)
	} else {
		err = tx.QueryRowContext(ctx, v.filter.countSQL(), v.filter.args...).Scan(&n)
	}
	if err != nil {
		return 0, err
	}
	isSingle, err := v.isSingle(ctx, tx)
	if err != nil {
		return 0, err
	}
	if !isSingle {
		present, with := allOf([]condition{v.filter, l.hasValue(v.location, notNull())}), int64(0)
		err = tx.QueryRowContext(ctx, present.countSQL(), present.args...).Scan(&with)
		return n - with, err
	}
	n -= counted.Others
	for _, bucket := range counted.Values {
		n -= bucket.Count
	}
	return n, err
}

// isSingle reports whether no event has several values of the field: by its mapping, or as far as events have been
// written.
func (v fieldValues) isSingle(ctx context.Context, tx *sql.Tx) (isSingle bool, err error) {
	if v.location.single || v.location.allKeys {
		return v.location.single, nil
	}
	keys := v.location.keyFilter()
	row := tx.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT 1 FROM key WHERE multivalued AND id IN ("+keys.sql+"))", keys.args...)
	return isSingle, row.Scan(&isSingle)
}

// TopValues counts the n most frequent values of a field of any type but text and date.
// It ignores Order and Limit of the selection. A list counts once for each of its
// values.
func (r *reader) TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error) {
	operation := "counting the values of " + field
	mapped, _ := r.layout.fields.Lookup(field)
	if mapped.Type == kql.Text || mapped.Type == kql.Date {
		return eventstore.Aggregation{}, cannotAggregate(operation, mapped)
	}
	values, err := r.newFieldValues(operation, sel, mapped)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	var aggregation eventstore.Aggregation
	err = r.readTx(ctx, operation, func(tx *sql.Tx) (err error) {
		if aggregation, err = values.topValues(ctx, tx, n); err != nil {
			return err
		}
		aggregation.Without, err = values.countMissing(ctx, tx, r.layout, aggregation)
		return err
	})
	return aggregation, err
}

// Present returns the values, of some of a keyword with a column, which an event of a selection has. It
// ignores Order and Limit of the selection, and reads one event for each value if the field has an index.
func (r *reader) Present(ctx context.Context, sel eventstore.Selection, of eventstore.FieldIn) (map[string]bool, error) {
	operation := "looking for values of " + of.Field
	field, _ := r.layout.fields.Lookup(of.Field)
	column := r.layout.locate(field).column
	if column == "" || field.Type != kql.Keyword {
		return nil, cannotAggregate(operation, field)
	}
	filter, err := r.filter(operation, sel)
	if err != nil {
		return nil, err
	}
	rows, err := r.readers.QueryContext(ctx, presentSQL(column, filter), append([]any{jsonList(of.Values)}, filter.args...)...)
	if err != nil {
		return nil, r.storeError(operation, err)
	}
	defer rows.Close()
	present := map[string]bool{}
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, r.storeError(operation, err)
		}
		present[value] = true
	}
	return present, r.storeError(operation, rows.Err())
}

func presentSQL(column string, filter condition) string {
	return "SELECT list.value FROM json_each(?) AS list WHERE EXISTS (SELECT 1 FROM event WHERE event." + quoteName(column) + " = list.value AND (" + filter.sql + "))"
}

func cannotAggregate(operation string, field kql.Field) error {
	return &eventstore.Error{
		Kind: eventstore.BadRequest, Reason: fmt.Sprintf("%s: fields of type %s cannot be counted by", operation, field.Type),
	}
}

// topValues reads the most frequent values, and equally frequent ones in ascending order.
func (v fieldValues) topValues(ctx context.Context, tx *sql.Tx, n int) (aggregation eventstore.Aggregation, err error) {
	shown := "value"
	if v.words {
		shown = "term_value(value)"
	}
	rows, err := tx.QueryContext(ctx, "WITH counted AS MATERIALIZED (SELECT value, events FROM ("+v.counts+`) WHERE value IS NOT NULL AND events > 0)
		SELECT `+shown+`, events, (SELECT sum(events) FROM counted) FROM (SELECT value, events FROM counted ORDER BY events DESC, value LIMIT ?)
		ORDER BY events DESC, value`, slices.Concat(v.countArgs, []any{max(n, 1)})...) // one row has the sum
	if err != nil {
		return aggregation, err
	}
	defer rows.Close()
	for rows.Next() {
		var value any
		var count, all int64
		if err := rows.Scan(&value, &count, &all); err != nil {
			return aggregation, err
		}
		if len(aggregation.Values) == 0 {
			aggregation.Others = all
		}
		if n == 0 {
			break
		}
		aggregation.Others -= count
		aggregation.Values = append(aggregation.Values, eventstore.Bucket{Text: formatValue(value), Count: count})
	}
	return aggregation, rows.Err()
}

func formatValue(value any) string {
	if f, ok := value.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// readTx runs several reads in one transaction, on one snapshot of the file.
func (f *file) readTx(ctx context.Context, operation string, read func(tx *sql.Tx) error) error {
	tx, err := f.readers.BeginTx(ctx, nil)
	if err != nil {
		return f.storeError(operation, err)
	}
	defer tx.Rollback() // it only reads
	return f.storeError(operation, read(tx))
}
