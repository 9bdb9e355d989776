package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// values selects the values that a field has in the events of a selection, as
// value: one for each event and value.
type values struct {
	filter condition
	sql    string
	args   []any
	at     place
}

func (s *Store) values(doing string, sel schemas.Selection, field query.Field) (values, error) {
	filter, err := s.filter(doing, sel)
	if err != nil {
		return values{}, err
	}
	v := values{filter: filter, at: s.layout.place(field)}
	switch at := v.at; {
	case at.column != "":
		v.sql = fmt.Sprintf("SELECT %s AS value FROM event WHERE %[1]s IS NOT NULL AND (%s)", name(at.column), filter.sql)
		v.args = filter.args
	default:
		keys := at.keys()
		v.sql = fmt.Sprintf("SELECT DISTINCT value, n FROM term WHERE %s AND n IN (SELECT event.n FROM event WHERE %s)", keys.sql, filter.sql)
		v.args = append(keys.args, filter.args...)
	}
	return v, nil
}

// without counts the events that have no value.
func (v values) without(ctx context.Context, tx *sql.Tx, l layout) (n int64, err error) {
	absent := allOf([]condition{v.filter, not(l.holds(v.at, present))})
	err = tx.QueryRowContext(ctx, "SELECT count(*) FROM event WHERE "+absent.sql, absent.args...).Scan(&n)
	return n, err
}

// Top counts the n most frequent values of a field, which must be no text and no
// date. Order and Limit of the selection do not matter to it. A field that is a
// list counts once for each of its values.
func (s *Store) Top(ctx context.Context, sel schemas.Selection, field string, n int) (schemas.Tally, error) {
	doing := "counting the values of " + field
	known, _ := s.layout.fields.Lookup(field)
	if known.Type == query.Text || known.Type == query.Date {
		return schemas.Tally{}, s.cannotCount(doing, known)
	}
	values, err := s.values(doing, sel, known)
	if err != nil {
		return schemas.Tally{}, err
	}
	var tally schemas.Tally
	err = s.view(ctx, doing, func(tx *sql.Tx) (err error) {
		if tally, err = values.top(ctx, tx, n); err != nil {
			return err
		}
		tally.Without, err = values.without(ctx, tx, s.layout)
		return err
	})
	return tally, err
}

func (s *Store) cannotCount(doing string, field query.Field) error {
	return &schemas.StoreError{
		Kind: schemas.StoreRefused, Reason: fmt.Sprintf("%s: fields of type %s cannot be counted by", doing, field.Type),
	}
}

// top takes the most frequent values, and equally frequent ones in order.
func (v values) top(ctx context.Context, tx *sql.Tx, n int) (tally schemas.Tally, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT value, count(*) FROM ("+v.sql+") GROUP BY value ORDER BY count(*) DESC, value", v.args...)
	if err != nil {
		return tally, err
	}
	defer rows.Close()
	for rows.Next() {
		var value any
		var count int64
		if err := rows.Scan(&value, &count); err != nil {
			return tally, err
		}
		if len(tally.Values) == n {
			tally.Others += count
			continue
		}
		tally.Values = append(tally.Values, schemas.Value{Text: asText(value), Count: count})
	}
	return tally, rows.Err()
}

func asText(value any) string {
	if f, ok := value.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// view reads several things as they are at one moment.
func (s *Store) view(ctx context.Context, doing string, read func(tx *sql.Tx) error) error {
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return s.failed(doing, err)
	}
	defer tx.Rollback() // it has changed nothing
	return s.failed(doing, read(tx))
}
