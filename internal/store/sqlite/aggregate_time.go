package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// Over counts the events of a selection over the time that a date field says,
// in at most n steps of equal and round length, the earliest first. Days begin at
// midnight in the zone, as it is at the last of them.
func (s *Store) Over(ctx context.Context, sel schemas.Selection, field string, n int, zone *time.Location) (schemas.Tally, error) {
	doing := "counting events over " + field
	known, _ := s.layout.fields.Lookup(field)
	if known.Type != query.Date {
		return schemas.Tally{}, s.cannotCount(doing, known)
	}
	values, err := s.values(doing, sel, known)
	if err != nil {
		return schemas.Tally{}, err
	}
	var tally schemas.Tally
	err = s.view(ctx, doing, func(tx *sql.Tx) (err error) {
		if tally.Values, err = values.over(ctx, tx, n, zone); err != nil {
			return err
		}
		tally.Without, err = values.without(ctx, tx, s.layout)
		return err
	})
	return tally, err
}

// over counts in steps from the first value to the last, those with none
// included.
func (v values) over(ctx context.Context, tx *sql.Tx, n int, zone *time.Location) ([]schemas.Value, error) {
	var first, last sql.NullInt64
	row := tx.QueryRowContext(ctx, "SELECT min(value), max(value) FROM ("+v.sql+")", v.args...)
	if err := row.Scan(&first, &last); err != nil || !first.Valid {
		return nil, err
	}
	step := schemas.RoundStep(time.Duration(last.Int64-first.Int64)*time.Millisecond, n).Milliseconds()
	shift := schemas.ZoneOffset(zone, last.Int64).Milliseconds()
	counts, err := v.steps(ctx, tx, step, shift)
	if err != nil {
		return nil, err
	}
	var list []schemas.Value
	for at := stepOf(first.Int64+shift, step); at <= stepOf(last.Int64+shift, step); at++ {
		begin := time.UnixMilli(at*step - shift).UTC().Format("2006-01-02T15:04:05.000Z")
		list = append(list, schemas.Value{Text: begin, Count: counts[at]})
	}
	return list, nil
}

// stepOf is which step a time is in, also before 1970.
func stepOf(millis, step int64) int64 {
	at := millis / step
	if at*step > millis {
		at--
	}
	return at
}

// steps counts the values, each later by shift, by the step that they are in, as
// stepOf does.
func (v values) steps(ctx context.Context, tx *sql.Tx, step, shift int64) (map[int64]int64, error) {
	group := fmt.Sprintf("(value + %d) / %d - ((value + %[1]d) %% %[2]d < 0)", shift, step)
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
