package system

import (
	"context"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

const (
	maxValues = 10_000 // of a field

	// TimeSteps is the maximum number of steps of a histogram over time unless a caller
	// chooses another one.
	TimeSteps = 40
)

// Counts counts events by the values of a field.
type Counts interface {
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error)
}

// Aggregate counts events by the values of a field, at most n values (0: as many as
// possible), the most frequent first; a date by steps of time. Mistakes are InputErrors.
func (l Language) Aggregate(ctx context.Context, events Counts, selection eventstore.Selection, name string, n int) (kql.Field, eventstore.Aggregation, error) {
	field, err := l.Field(name)
	if err != nil {
		return field, eventstore.Aggregation{}, err
	}
	if n == 0 || n > maxValues {
		n = maxValues
	}
	var counts eventstore.Aggregation
	switch field.Type {
	case kql.Text:
		err = InputErrorf("%s: its words are searched, but it cannot be counted by; %s", field.Name, insteadOf(field.Name))
	case kql.Date:
		counts, err = events.Histogram(ctx, selection, field.Name, TimeSteps, time.Local)
	default:
		counts, err = events.TopValues(ctx, selection, field.Name, n)
	}
	return field, counts, err
}

func insteadOf(text string) string {
	if text == "error.message" {
		return "watership.error_group, which folds ids and numbers, can"
	}
	return "expected a keyword, a number, a date or a header"
}

// Histogram counts events by steps of the time in a field, at most n steps. Days begin in
// the zone. Mistakes are InputErrors.
func (l Language) Histogram(ctx context.Context, events Counts, selection eventstore.Selection, name string, n int, zone *time.Location) (kql.Field, eventstore.Aggregation, error) {
	field, err := l.Field(name)
	if err == nil && field.Type != kql.Date {
		err = InputErrorf("%s: expected a field with a time, such as @timestamp", field.Name)
	}
	if err != nil {
		return field, eventstore.Aggregation{}, err
	}
	counts, err := events.Histogram(ctx, selection, field.Name, n, zone)
	return field, counts, err
}

// HistogramByAction counts events by steps of the time of a period and by action, at most n
// steps. Days begin in the zone of the period.
func (s *System) HistogramByAction(ctx context.Context, selection eventstore.Selection, in Period, n int, actions []schemas.Action) (eventstore.Steps, [][]int64, error) {
	events, err := s.Store(ctx)
	if err != nil {
		return eventstore.Steps{}, nil, err
	}
	over, err := in.steps(n, func() (time.Time, error) { return events.FirstTime(ctx, selection) })
	if err != nil || over.Count == 0 {
		return over, make([][]int64, len(actions)), err
	}
	counts, err := events.HistogramByAction(ctx, selection, over, actions)
	return over, counts, err
}
