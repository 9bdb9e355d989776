package sizing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/schemas"
)

// Period is the period of the traffic that Read reads.
const Period = day

const mostSizes = 10_000 // of bodies that differ

// Read returns the traffic of the published and handled events of Period, scaled to a day if
// they began later.
func Read(ctx context.Context, via operation.Via) (t Traffic, err error) {
	published, handled := latest(schemas.Published), latest(schemas.Handled)
	minutes, err := messages.CountOverTime.Call(ctx, via, messages.HistogramInput{QueryFilter: published, Steps: 2 * int(Period/time.Minute)})
	if err != nil {
		return t, fmt.Errorf("count the published messages of each minute: %w", err)
	}
	if len(minutes.Body.Values) == 0 {
		return t, errors.New("no message was published in the last 24 hours, so there is no traffic to plan for")
	}
	sizes, err := messages.CountValues.Call(ctx, via, messages.ValuesInput{QueryFilter: published, Field: "messaging.message.body.size", Limit: mostSizes})
	if err != nil {
		return t, fmt.Errorf("count the sizes of bodies: %w", err)
	}
	all, err := messages.CountEvents.Call(ctx, via, messages.CountInput{QueryFilter: published})
	if err != nil {
		return t, fmt.Errorf("count the published messages: %w", err)
	}
	done, err := messages.CountEvents.Call(ctx, via, messages.CountInput{QueryFilter: handled})
	if err != nil {
		return t, fmt.Errorf("count the handled messages: %w", err)
	}
	t.Handled, t.Size = float64(done.Body.Count)/float64(max(all.Body.Count, 1)), meanOf(sizes.Body.Values)
	t.Peak, t.Daily = ratesOf(minutes.Body.Values)
	return t, nil
}

// latest returns the events of Period with an action.
func latest(action schemas.Action) (f eventfilter.QueryFilter) {
	f.Query, f.Since = "event.action: "+string(action), fmt.Sprintf("%dh", int(Period.Hours()))
	return f
}

// meanOf returns the mean of numbers, by the number of events of each.
func meanOf(values []messages.Value) float64 {
	var sum, count float64
	for _, v := range values {
		if n, err := strconv.ParseFloat(v.Value, 64); err == nil {
			sum += n * float64(v.Count)
			count += float64(v.Count)
		}
	}
	return sum / max(count, 1)
}

// ratesOf returns the messages a second of the busiest minute, and of a day.
func ratesOf(over []messages.Value) (peak, daily float64) {
	step, n := stepOf(over), len(over)
	window := max(1, int(time.Minute/step))
	var sum, all float64
	for i, v := range over {
		sum += float64(v.Count)
		all += float64(v.Count)
		if i >= window {
			sum -= float64(over[i-window].Count)
		}
		peak = max(peak, sum)
	}
	peak /= min(float64(window), float64(n)) * step.Seconds()
	return peak, all / min(1, float64(n)*step.Hours()/24)
}

// stepOf returns the time between two values of a histogram.
func stepOf(values []messages.Value) time.Duration {
	if len(values) > 1 {
		first, err := time.Parse(time.RFC3339, values[0].Value)
		second, other := time.Parse(time.RFC3339, values[1].Value)
		if err == nil && other == nil && second.After(first) {
			return second.Sub(first)
		}
	}
	return time.Second
}
