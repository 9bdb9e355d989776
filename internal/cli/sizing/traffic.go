package sizing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

type store interface {
	Count(ctx context.Context, sel eventstore.Selection) (int64, error)
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error)
}

// Period is the period of the traffic that Read reads.
const Period = day

const mostSizes = 10_000 // of bodies that differ

// Read returns the traffic of the published and handled events of Period, scaled to a day if
// they began later.
func Read(ctx context.Context, events store, published, handled eventstore.Selection) (t Traffic, err error) {
	minutes, err := events.Histogram(ctx, published, "@timestamp", 2*int(Period/time.Minute), time.UTC)
	if err != nil {
		return t, fmt.Errorf("count the published messages of each minute: %w", err)
	}
	if len(minutes.Values) == 0 {
		return t, errors.New("no message was published in the last 24 hours, so there is no traffic to plan for")
	}
	sizes, err := events.TopValues(ctx, published, "messaging.message.body.size", mostSizes)
	if err != nil {
		return t, fmt.Errorf("count the sizes of bodies: %w", err)
	}
	all, err := events.Count(ctx, published)
	if err != nil {
		return t, fmt.Errorf("count the published messages: %w", err)
	}
	done, err := events.Count(ctx, handled)
	if err != nil {
		return t, fmt.Errorf("count the handled messages: %w", err)
	}
	t.Handled, t.Size = float64(done)/float64(max(all, 1)), meanOf(sizes)
	t.Peak, t.Daily = ratesOf(minutes)
	return t, nil
}

// meanOf returns the mean of numbers, by the number of events of each.
func meanOf(values eventstore.Aggregation) float64 {
	var sum, count float64
	for _, v := range values.Values {
		if n, err := strconv.ParseFloat(v.Text, 64); err == nil {
			sum += n * float64(v.Count)
			count += float64(v.Count)
		}
	}
	return sum / max(count, 1)
}

// ratesOf returns the messages a second of the busiest minute, and of a day.
func ratesOf(over eventstore.Aggregation) (peak, daily float64) {
	step, n := stepOf(over.Values), len(over.Values)
	window := max(1, int(time.Minute/step))
	var sum, all float64
	for i, v := range over.Values {
		sum += float64(v.Count)
		all += float64(v.Count)
		if i >= window {
			sum -= float64(over.Values[i-window].Count)
		}
		peak = max(peak, sum)
	}
	peak /= min(float64(window), float64(n)) * step.Seconds()
	return peak, all / min(1, float64(n)*step.Hours()/24)
}

// stepOf returns the time between two values of a histogram.
func stepOf(values []eventstore.Bucket) time.Duration {
	if len(values) > 1 {
		first, err := time.Parse(time.RFC3339, values[0].Text)
		second, other := time.Parse(time.RFC3339, values[1].Text)
		if err == nil && other == nil && second.After(first) {
			return second.Sub(first)
		}
	}
	return time.Second
}
