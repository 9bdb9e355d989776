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
// selection. It reads the events of one value after the other, and keeps counts of their
// numbers in place of the numbers.
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
		percentiles, err := values.percentiles(ctx, tx, counted.Values, fields)
		if err != nil {
			return err
		}
		for _, value := range counted.Values {
			found.Values = append(found.Values, eventstore.ValuePercentiles{Text: value.Text, Count: value.Count, Fields: percentiles[value.Text]})
		}
		return nil
	})
	return found, err
}

// percentilesSQL selects the columns of the events with some values, the events of one value
// after the other. SQLite evaluates a subquery of the filter, such as of headers, once.
func (v fieldValues) percentilesSQL(fields []string) string {
	by := quoteName(v.location.column)
	return fmt.Sprintf("SELECT %s, %s FROM event WHERE %[1]s IN (SELECT value FROM json_each(?)) AND (%[3]s) ORDER BY %[1]s", by, quoteNames(fields), v.filter.sql)
}

// percentiles returns the percentiles of columns by the values of a field.
func (v fieldValues) percentiles(ctx context.Context, tx *sql.Tx, of []eventstore.Bucket, fields []string) (map[string][]eventstore.Percentiles, error) {
	texts := make([]string, len(of))
	for i, value := range of {
		texts[i] = value.Text
	}
	rows, err := tx.QueryContext(ctx, v.percentilesSQL(fields), append([]any{jsonList(texts)}, v.filter.args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string][]eventstore.Percentiles{}
	var counts columnCounts
	var value, last string
	numbers := make([]sql.NullInt64, len(fields))
	into := []any{&value}
	for i := range numbers {
		into = append(into, &numbers[i])
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		if counts == nil || value != last {
			if counts != nil {
				found[last] = counts.percentiles()
			}
			counts, last = newColumnCounts(len(fields)), value
		}
		counts.add(numbers)
	}
	if counts != nil {
		found[last] = counts.percentiles()
	}
	return found, rows.Err()
}

// columnCounts counts the numbers of each of several columns.
type columnCounts []valueCounts

func newColumnCounts(columns int) columnCounts {
	c := make(columnCounts, columns)
	for i := range c {
		c[i].counts = map[int]int64{}
	}
	return c
}

func (c columnCounts) add(row []sql.NullInt64) {
	for i, number := range row {
		if number.Valid {
			c[i].add(number.Int64)
		}
	}
}

func (c columnCounts) percentiles() []eventstore.Percentiles {
	list := make([]eventstore.Percentiles, len(c))
	for i := range list {
		list[i] = c[i].percentiles()
	}
	return list
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
