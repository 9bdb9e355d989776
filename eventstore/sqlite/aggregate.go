package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

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
}

func (s *Store) newFieldValues(operation string, sel eventstore.Selection, field kql.Field) (fieldValues, error) {
	filter, err := s.filter(operation, sel)
	if err != nil {
		return fieldValues{}, err
	}
	v := fieldValues{filter: filter, location: s.layout.locate(field)}
	switch at := v.location; {
	case at.column != "":
		v.sql = fmt.Sprintf("SELECT %s AS value FROM event WHERE %[1]s IS NOT NULL AND (%s)", quoteName(at.column), filter.sql)
		v.args = filter.args
	default:
		keys := at.keyFilter()
		v.sql = fmt.Sprintf("SELECT DISTINCT value, n FROM term WHERE %s AND n IN (SELECT event.n FROM event WHERE %s)", keys.sql, filter.sql)
		v.args = append(keys.args, filter.args...)
	}
	return v, nil
}

// countMissing counts the events without a value.
func (v fieldValues) countMissing(ctx context.Context, tx *sql.Tx, l layout) (n int64, err error) {
	absent := allOf([]condition{v.filter, not(l.hasValue(v.location, notNull))})
	err = tx.QueryRowContext(ctx, "SELECT count(*) FROM event WHERE "+absent.sql, absent.args...).Scan(&n)
	return n, err
}

// TopValues counts the n most frequent values of a field of any type but text and date.
// It ignores Order and Limit of the selection. A list counts once for each of its
// values.
func (s *Store) TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error) {
	operation := "counting the values of " + field
	mapped, _ := s.layout.fields.Lookup(field)
	if mapped.Type == kql.Text || mapped.Type == kql.Date {
		return eventstore.Aggregation{}, s.cannotAggregate(operation, mapped)
	}
	values, err := s.newFieldValues(operation, sel, mapped)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	var aggregation eventstore.Aggregation
	err = s.readTx(ctx, operation, func(tx *sql.Tx) (err error) {
		if aggregation, err = values.topValues(ctx, tx, n); err != nil {
			return err
		}
		aggregation.Without, err = values.countMissing(ctx, tx, s.layout)
		return err
	})
	return aggregation, err
}

func (s *Store) cannotAggregate(operation string, field kql.Field) error {
	return &eventstore.Error{
		Kind: eventstore.BadRequest, Reason: fmt.Sprintf("%s: fields of type %s cannot be counted by", operation, field.Type),
	}
}

// topValues reads the most frequent values, and equally frequent ones in ascending order.
func (v fieldValues) topValues(ctx context.Context, tx *sql.Tx, n int) (aggregation eventstore.Aggregation, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT value, count(*) FROM ("+v.sql+") GROUP BY value ORDER BY count(*) DESC, value", v.args...)
	if err != nil {
		return aggregation, err
	}
	defer rows.Close()
	for rows.Next() {
		var value any
		var count int64
		if err := rows.Scan(&value, &count); err != nil {
			return aggregation, err
		}
		if len(aggregation.Values) == n {
			aggregation.Others += count
			continue
		}
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
func (s *Store) readTx(ctx context.Context, operation string, read func(tx *sql.Tx) error) error {
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return s.storeError(operation, err)
	}
	defer tx.Rollback() // it only reads
	return s.storeError(operation, read(tx))
}
