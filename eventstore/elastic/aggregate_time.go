package elastic

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/schemas"
)

// Histogram counts the events of a selection by a date field, in at most n steps of
// equal and round length, the earliest first. Days begin at midnight in the zone,
// with the UTC offset of the latest event.
func (r *reader) Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error) {
	operation := "counting events over " + field
	response, err := r.aggregate(ctx, operation, sel, map[string]any{
		"first":   map[string]any{"min": map[string]any{"field": field}},
		"last":    map[string]any{"max": map[string]any{"field": field}},
		"without": map[string]any{"filter": querydsl.Bool("must_not", map[string]any{"exists": map[string]any{"field": field}})},
	})
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	tally := eventstore.Aggregation{Without: response.Aggregations.Without.Count}
	first, last := response.Aggregations.First.Value, response.Aggregations.Last.Value
	if first == nil || last == nil { // no event has the field
		return tally, nil
	}
	over := eventstore.NewSteps(time.UnixMilli(int64(*first)), time.UnixMilli(int64(*last)), n, zone)
	response, err = r.aggregate(ctx, operation, sel, map[string]any{"values": map[string]any{"date_histogram": dateHistogram(field, over)}})
	for _, b := range response.Aggregations.Values.Buckets {
		tally.Values = append(tally.Values, eventstore.Bucket{Text: b.AsText, Count: b.Count})
	}
	return tally, err
}

func dateHistogram(field string, over eventstore.Steps) map[string]any {
	length := over.Length.Milliseconds()
	return map[string]any{
		"field": field, "fixed_interval": fmt.Sprintf("%dms", length), "offset": fmt.Sprintf("%+dms", over.Begin.UnixMilli()%length),
		"format": "strict_date_optional_time",
	}
}

// HistogramByAction counts the events of a selection with one of the actions in each step
// of time: for each action a list with a count for each step.
func (r *reader) HistogramByAction(ctx context.Context, sel eventstore.Selection, over eventstore.Steps, actions []schemas.Action) ([][]int64, error) {
	filters, counts := make([]map[string]any, len(actions)), make([][]int64, len(actions))
	for i, action := range actions {
		filters[i] = map[string]any{"term": map[string]any{"event.action": action}}
		counts[i] = make([]int64, over.Count)
	}
	times := dateHistogram("@timestamp", over)
	times["hard_bounds"] = map[string]any{"min": over.Text(0), "max": over.Text(over.Count)}
	response, err := r.aggregate(ctx, "counting events by time and action", sel, map[string]any{"actions": map[string]any{
		"filters": map[string]any{"filters": filters}, "aggs": map[string]any{"times": map[string]any{"date_histogram": times}},
	}})
	for i, action := range response.Aggregations.Actions.Buckets {
		for _, b := range action.Times.Buckets {
			millis, _ := strconv.ParseInt(string(b.Key), 10, 64)
			if at := time.UnixMilli(millis).Sub(over.Begin) / over.Length; at >= 0 && at < time.Duration(over.Count) {
				counts[i][at] = b.Count
			}
		}
	}
	return counts, err
}

// FirstTime returns the earliest time of the events of a selection; zero if none exists.
func (r *reader) FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error) {
	response, err := r.aggregate(ctx, "looking for the first event", sel, map[string]any{
		"first": map[string]any{"min": map[string]any{"field": "@timestamp"}},
	})
	if first := response.Aggregations.First.Value; err == nil && first != nil {
		return time.UnixMilli(int64(*first)).UTC(), nil
	}
	return time.Time{}, err
}
