package console

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/chart"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/schemas"
)

const (
	maxBars       = 100
	maxConcurrent = 4    // calls of a page
	maxSplitQuery = 3500 // bytes, so that a condition more fits

	// countTimeout is how long a page waits for its counts, without which it is of use.
	countTimeout = 3 * time.Second

	// quickCount is the time within which the events must be counted for a page to count
	// them by their queues, too.
	quickCount = 50 * time.Millisecond

	otherActions = "other"
	allActions   = "bar"
)

// countOver counts the events of a filter over time: by action where that is as fast, since
// a store has an index for it. query is the query of the filter, resolved.
func (c searchPages) countOver(ctx context.Context, f frame.Filter, query kql.Node, now time.Time) (chart.Histogram, error) {
	over, err := f.Selected(now)
	if err != nil {
		return chart.Histogram{}, err
	}
	conditions := map[string]string{allActions: ""}
	names := []string{allActions}
	if isOfColumns(query) && len(f.Query) < maxSplitQuery {
		names, conditions = actionConditions()
	}
	list := make([]chart.Series, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrent)
	for i, name := range names {
		group.Go(func() (err error) {
			part := f
			part.Query = frame.Within(f.Query, conditions[name])
			list[i].Name = name
			list[i].Counts, err = c.countSteps(ctx, part)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return chart.Histogram{}, err
	}
	return chart.New(list, over, maxBars)
}

func (c searchPages) countSteps(ctx context.Context, f frame.Filter) ([]eventstore.Bucket, error) {
	counted, err := messages.CountOverTime.Call(ctx, c.api, messages.HistogramInput{QueryFilter: f.API(), Steps: maxBars})
	buckets := make([]eventstore.Bucket, len(counted.Body.Values))
	for i, value := range counted.Body.Values {
		buckets[i] = eventstore.Bucket{Text: value.Value, Count: value.Count}
	}
	return buckets, err
}

// actionConditions returns the actions with their own colour, and all others as one.
func actionConditions() (names []string, conditions map[string]string) {
	conditions = map[string]string{}
	for _, action := range []schemas.Action{schemas.Published, schemas.Handled, schemas.RetryScheduled, schemas.Poisoned} {
		names = append(names, string(action))
		conditions[string(action)] = "event.action: " + string(action)
	}
	var others []string
	for _, action := range []schemas.Action{
		schemas.Replayed, schemas.Discarded, schemas.Rescheduled, schemas.Quarantined, schemas.Dropped, schemas.Paused, schemas.Resumed, schemas.Audited, schemas.Triaged,
	} {
		others = append(others, string(action))
	}
	conditions[otherActions] = "event.action: (" + strings.Join(others, " or ") + ")"
	return append(names, otherActions), conditions
}

// isOfColumns reports whether a query has no condition on words, headers or labels, which a
// store evaluates in full for each request.
func isOfColumns(node kql.Node) bool {
	switch n := node.(type) {
	case kql.All:
		return true
	case kql.And:
		return areOfColumns(n)
	case kql.Or:
		return areOfColumns(n)
	case kql.Not:
		return isOfColumns(n.Node)
	case kql.Is:
		return isColumn(n.Field)
	case kql.Exists:
		return isColumn(n.Field)
	case kql.Range:
		return isColumn(n.Field)
	}
	return false
}

func areOfColumns(nodes []kql.Node) bool {
	for _, node := range nodes {
		if !isOfColumns(node) {
			return false
		}
	}
	return true
}

func isColumn(field kql.Pattern) bool {
	if field == nil || field.Wild() {
		return false
	}
	for _, words := range []string{"body.", "headers", "labels.", "numeric_labels.", "error.message", "error.stack_trace"} {
		if strings.HasPrefix(field.Text(), words) {
			return false
		}
	}
	return true
}

// topValues returns the most frequent values of a field in the events of a filter; none if
// that takes long.
func (c searchPages) topValues(ctx context.Context, f frame.Filter, field string, limit int) []messages.Value {
	ctx, cancel := context.WithTimeout(ctx, 2*quickCount)
	defer cancel()
	counted, err := messages.CountValues.Call(ctx, c.api, messages.ValuesInput{QueryFilter: f.API(), Field: field, Limit: limit})
	if err != nil {
		return nil
	}
	return counted.Body.Values
}
