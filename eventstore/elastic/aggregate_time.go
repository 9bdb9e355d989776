package elastic

import (
	"context"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// Histogram counts the events of a selection by a date field, in at most n steps of
// equal and round length, the earliest first. Days begin at midnight in the zone,
// with the UTC offset of the latest event.
func (s *Store) Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error) {
	operation := "counting events over " + field
	response, err := s.aggregate(ctx, operation, sel, map[string]any{
		"first":   map[string]any{"min": map[string]any{"field": field}},
		"last":    map[string]any{"max": map[string]any{"field": field}},
		"without": map[string]any{"filter": boolQuery("must_not", map[string]any{"exists": map[string]any{"field": field}})},
	})
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	tally := eventstore.Aggregation{Without: response.Aggregations.Without.Count}
	first, last := response.Aggregations.First.Value, response.Aggregations.Last.Value
	if first == nil || last == nil { // no event has the field
		return tally, nil
	}
	step := eventstore.RoundStep(time.Duration(*last-*first)*time.Millisecond, n)
	response, err = s.aggregate(ctx, operation, sel, map[string]any{
		"values": map[string]any{"date_histogram": map[string]any{
			"field": field, "fixed_interval": fmt.Sprintf("%dms", step.Milliseconds()),
			"offset": fmt.Sprintf("%+dms", -eventstore.ZoneOffset(zone, int64(*last)).Milliseconds()),
			"format": "strict_date_optional_time",
		}},
	})
	for _, b := range response.Aggregations.Values.Buckets {
		tally.Values = append(tally.Values, eventstore.Bucket{Text: b.AsText, Count: b.Count})
	}
	return tally, err
}
