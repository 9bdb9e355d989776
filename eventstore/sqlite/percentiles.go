package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// Percentiles returns the percentiles of fields that are numbers, for each of the n most
// frequent values of a keyword that is a column. It ignores Order and Limit of the
// selection. It reads the events of one value at a time, and keeps counts of their numbers
// in place of the numbers.
func (r *reader) Percentiles(ctx context.Context, sel eventstore.Selection, by string, n int, fields ...string) (eventstore.PercentilesBy, error) {
	operation := "computing percentiles by " + by
	grouped, _ := r.layout.fields.Lookup(by)
	if r.layout.locate(grouped).column == "" || grouped.Type != kql.Keyword {
		return eventstore.PercentilesBy{}, cannotAggregate(operation, grouped)
	}
	for _, name := range fields {
		if field, _ := r.layout.fields.Lookup(name); field.Type != kql.Long || r.layout.locate(field).column == "" {
			return eventstore.PercentilesBy{}, cannotAggregate(operation, field)
		}
	}
	values, err := r.newFieldValues(operation, sel, grouped)
	if err != nil {
		return eventstore.PercentilesBy{}, err
	}
	var found eventstore.PercentilesBy
	err = r.readTx(ctx, operation, func(tx *sql.Tx) error {
		counted, err := values.topValues(ctx, tx, n)
		if err != nil {
			return err
		}
		found.Others = counted.Others
		statement := fmt.Sprintf("SELECT %s FROM event WHERE %s = ? AND (%s)", quoteNames(fields), quoteName(by), values.filter.sql)
		for _, value := range counted.Values {
			args := append([]any{value.Text}, values.filter.args...)
			percentiles, err := percentilesOf(ctx, tx, len(fields), statement, args)
			if err != nil {
				return err
			}
			found.Values = append(found.Values, eventstore.ValuePercentiles{Text: value.Text, Count: value.Count, Fields: percentiles})
		}
		return nil
	})
	return found, err
}

// percentilesOf reads the values of a number of columns.
func percentilesOf(ctx context.Context, tx *sql.Tx, columns int, statement string, args []any) ([]eventstore.Percentiles, error) {
	rows, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts, row, into := make([]valueCounts, columns), make([]sql.NullInt64, columns), make([]any, columns)
	for i := range into {
		counts[i], into[i] = valueCounts{counts: map[int]int64{}}, &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, value := range row {
			if value.Valid {
				counts[i].add(value.Int64)
			}
		}
	}
	list := make([]eventstore.Percentiles, columns)
	for i := range list {
		list[i] = counts[i].percentiles()
	}
	return list, rows.Err()
}

// valueCounts counts numbers in buckets, as an HDR histogram with two digits does: 128
// for each power of two, so that a bucket is less than a hundredth as wide as its values,
// and any number of values has at most 7,300 buckets.
type valueCounts struct {
	counts map[int]int64
	total  int64
	max    int64
}

const (
	bucketBits = 7
	exactBelow = 2 << bucketBits
)

func (c *valueCounts) add(value int64) {
	value = max(value, 0)
	c.counts[bucketOf(value)]++
	c.total++
	c.max = max(c.max, value)
}

func bucketOf(value int64) int {
	if value < exactBelow {
		return int(value)
	}
	shift := bits.Len64(uint64(value)) - bucketBits - 1
	return shift<<bucketBits + int(value>>shift)
}

// highestIn returns the greatest value of a bucket.
func highestIn(bucket int) int64 {
	if bucket < exactBelow {
		return int64(bucket)
	}
	shift := bucket>>bucketBits - 1
	mantissa := int64(bucket - shift<<bucketBits)
	return (mantissa+1)<<shift - 1
}

func (c *valueCounts) percentiles() eventstore.Percentiles {
	p := eventstore.Percentiles{Count: c.total, Max: c.max}
	if c.total == 0 {
		return p
	}
	buckets := slices.Sorted(maps.Keys(c.counts))
	for _, wanted := range []struct {
		percent int64
		into    *int64
	}{{50, &p.P50}, {95, &p.P95}, {99, &p.P99}} {
		rank, seen := max(1, (c.total*wanted.percent+50)/100), int64(0) // as Elasticsearch rounds
		for _, bucket := range buckets {
			if seen += c.counts[bucket]; seen >= rank {
				*wanted.into = min(highestIn(bucket), c.max)
				break
			}
		}
	}
	return p
}
