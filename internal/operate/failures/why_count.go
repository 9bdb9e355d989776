package failures

import (
	"context"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/failures/compare"
	"github.com/watershipmq/watership/schemas"
)

func (c Counted) share() compare.Share { return compare.Share{With: c.With, Of: c.Of} }

// causes returns the first of some factors, with the counts of all messages. A factor that holds only in the
// sample is left out.
func (w *whyReader) causes(ctx context.Context, factors []compare.Factor, against Against) (causes []Cause, err error) {
	causes = []Cause{}
	for _, f := range factors[:min(len(factors), 4*maxCauses)] {
		if len(causes) == maxCauses {
			break
		}
		cause, err := w.count(ctx, f, against)
		if err != nil {
			return nil, err
		}
		if compare.Holds(cause.Failures.share(), cause.Handled.share()) {
			causes = append(causes, cause)
		}
	}
	return causes, nil
}

// count counts all messages that fulfil a condition, where the store can search it.
func (w *whyReader) count(ctx context.Context, f compare.Factor, against Against) (Cause, error) {
	cause := Cause{
		Condition: conditionOf(f.Condition), Against: against, Same: []Condition{},
		Failures: Counted{With: f.Failed.With, Of: f.Failed.Of, Sample: true},
		Handled:  Counted{With: f.Handled.With, Of: f.Handled.Of, Sample: true},
	}
	for _, same := range f.Same {
		cause.Same = append(cause.Same, conditionOf(same))
	}
	searched, found := w.searchable(append([]compare.Condition{f.Condition}, f.Same...))
	if !found {
		return cause, nil
	}
	var err error
	if cause.Failures, err = w.countAll(ctx, w.failed(w.why.From, w.why.To), searched, w.why.Failures); err != nil || ofBody(searched.Field) {
		return cause, err // the body of a handled message is in another event
	}
	if against == OtherTime {
		cause.Handled, err = w.countAll(ctx, w.others(), searched, w.why.Others)
	} else {
		cause.Handled, err = w.countAll(ctx, w.handled(w.why.From, w.why.To), searched, w.why.Handled)
	}
	return cause, err
}

func conditionOf(c compare.Condition) Condition {
	return Condition{Field: c.Field, Test: c.Test, Value: c.Value}
}

func (w *whyReader) countAll(ctx context.Context, among kql.And, condition compare.Condition, all Compared) (Counted, error) {
	query := append(among, node(condition))
	n, err := w.store.Count(ctx, w.within(eventstore.Selection{Query: query}))
	return Counted{With: int(n), Of: all.Count, Query: query.String()}, err
}

// findPeriod finds the period with the most failures in excess, by the counts of all messages. Then it is
// the time of the failures. Nil: the failures are spread as the handled messages are.
func (w *whyReader) findPeriod(ctx context.Context) (*Cause, error) {
	steps := eventstore.NewSteps(w.why.Since, w.why.Until, periodSteps, time.UTC)
	last := steps.At(steps.Count).Add(-time.Millisecond)
	counts := func(of kql.Node, action schemas.Action) ([]int64, error) {
		found, err := w.store.HistogramByAction(ctx, w.within(eventstore.Selection{Query: of}), steps, []schemas.Action{action})
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}
	failed, err := counts(w.failed(w.why.Since, last), schemas.Poisoned)
	if err != nil {
		return nil, err
	}
	handled, err := counts(w.handled(w.why.Since, last), schemas.Handled)
	if err != nil {
		return nil, err
	}
	first, end, found := compare.Period(failed, handled)
	if !found {
		return nil, nil
	}
	counted := func(query kql.And, counts []int64) Counted {
		c := Counted{Query: query.String()}
		for i, n := range counts {
			if c.Of += int(n); i >= first && i < end {
				c.With += int(n)
			}
		}
		return c
	}
	w.why.From, w.why.To = milliseconds(steps.At(first)), milliseconds(steps.At(end).Add(-time.Millisecond))
	if w.why.From.Before(w.why.Since) {
		w.why.From = w.why.Since
	}
	return &Cause{
		Condition: Condition{Field: "@timestamp", Test: compare.Within}, Begin: w.why.From, End: milliseconds(steps.At(end)),
		Against: Period, Same: []Condition{},
		Failures: counted(w.failed(w.why.From, w.why.To), failed),
		Handled:  counted(w.handled(w.why.From, w.why.To), handled),
	}, nil
}
