package failures

import (
	"context"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures/compare"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// Why is what distinguishes the failures of a group from messages that the same queue handled.
type Why struct {
	Group string `json:"group" doc:"Id of the group"`
	history.Kind
	Outcome WhyOutcome `json:"outcome" enum:"found,nothing,no_failures,few_failures,none_handled" doc:"found: there are causes; nothing: nothing distinguishes the failures; no_failures: there are none in this time; few_failures: they are too few to say; none_handled: the queue handled nothing with which they could be compared"`
	Causes  []Cause    `json:"causes" nullable:"false" doc:"What more of the failures have than chance explains, that which explains the most first"`

	Since time.Time `json:"since,omitzero" doc:"Begin of all that was compared; none without failures"`
	Until time.Time `json:"until,omitzero" doc:"End of it: at most a day after the last failure"`
	From  time.Time `json:"from,omitzero" doc:"Begin of the time of the failures, at least an hour"`
	To    time.Time `json:"to,omitzero" doc:"End of it"`

	Failures   Compared `json:"failures" doc:"Failures of the group in their time, also those that are resolved"`
	Handled    Compared `json:"handled" doc:"Messages that the queue handled in the same time, without replays"`
	Others     Compared `json:"others" doc:"Messages that the queue handled at other times; they are compared if a period has more failures than others"`
	Conditions int      `json:"conditions" doc:"Number of conditions on fields that were compared"`
	Bodies     Bodies   `json:"bodies" enum:"compared,hidden,unknown" doc:"hidden: the caller may not read bodies; unknown: the store has none of handled messages"`
}

// WhyOutcome is the outcome of a comparison.
type WhyOutcome string

// The outcomes.
const (
	Found       WhyOutcome = "found"
	Nothing     WhyOutcome = "nothing"
	NoFailures  WhyOutcome = "no_failures"
	FewFailures WhyOutcome = "few_failures"
	NoneHandled WhyOutcome = "none_handled"
)

// Bodies is whether fields of bodies were compared.
type Bodies string

// The values of Bodies.
const (
	BodiesCompared Bodies = "compared"
	BodiesHidden   Bodies = "hidden"
	BodiesUnknown  Bodies = "unknown"
)

// Compared counts messages.
type Compared struct {
	Count int `json:"count" doc:"All of them"`
	Read  int `json:"read" doc:"Those that were compared: all, or a sample"`
}

// Cause is a condition that more failures than handled messages fulfil.
type Cause struct {
	Condition
	Against  Against     `json:"against" enum:"same_time,other_time,period" doc:"Handled messages with which the failures are compared: of the same time; of other times, if a condition goes along with the time of the failures; of all times, for a period"`
	Failures Counted     `json:"failures"`
	Handled  Counted     `json:"handled"`
	Same     []Condition `json:"same" nullable:"false" doc:"Other conditions that the same messages fulfil"`
	Begin    time.Time   `json:"begin,omitzero" doc:"Of within"`
	End      time.Time   `json:"end,omitzero" doc:"Of within: it does not belong to the period"`
}

// Condition is a condition on a field.
type Condition struct {
	Field string       `json:"field" doc:"Full name"`
	Test  compare.Test `json:"test" enum:"is,exists,missing,at_least,at_most,within"`
	Value string       `json:"value,omitempty" doc:"Of is, at_least and at_most"`
}

// Against is the messages with which failures are compared.
type Against string

// The messages.
const (
	SameTime  Against = "same_time"
	OtherTime Against = "other_time"
	Period    Against = "period"
)

// Counted counts the messages that fulfil a condition.
type Counted struct {
	With   int    `json:"with" doc:"Messages that fulfil the condition"`
	Of     int    `json:"of" doc:"All messages"`
	Sample bool   `json:"sample" doc:"Both are of the messages that were compared, and not of all: the store cannot search the condition"`
	Query  string `json:"query,omitempty" doc:"Query that finds the messages; none: no query does"`
}

// The bounds of a comparison.
const (
	maxFailed    = 1000
	maxHandled   = 1500
	maxCauses    = 5
	shortestTime = time.Hour
	around       = 24 * time.Hour
	periodSteps  = 120
)

// Why compares the failures of a group with messages that the same queue handled, since a time or,
// if that is zero, since a day before the first failure. visible are the events that the caller may see.
func (s Service) Why(ctx context.Context, g *FailureGroup, since time.Time, visible kql.Node, withBodies bool) (Why, error) {
	store, err := s.System.Store(ctx)
	if err != nil {
		return Why{}, err
	}
	w := whyReader{Service: s, store: store, visible: visible, withBodies: withBodies, kind: g.Kind}
	w.why = Why{Group: g.ID, Kind: g.Kind, Causes: []Cause{}, Bodies: BodiesHidden, Outcome: NoFailures}
	if withBodies {
		w.why.Bodies = BodiesUnknown
	}
	if found, err := w.setTimes(ctx, g, since); err != nil || !found {
		return w.why, err
	}
	err = w.compare(ctx)
	return w.why, err
}

// whyReader reads the messages of a comparison.
type whyReader struct {
	Service
	store      system.EventStore
	visible    kql.Node
	withBodies bool
	kind       history.Kind
	why        Why
}

// setTimes finds out when the failures happened; false: the store has none any more.
func (w *whyReader) setTimes(ctx context.Context, g *FailureGroup, since time.Time) (found bool, err error) {
	first, last := g.First, g.Last
	if g.Count == 0 { // all are resolved
		all := eventstore.Selection{Query: w.kind.Query(), Limit: 1, WithoutBody: true}
		if first, err = w.store.FirstTime(ctx, w.within(all)); err != nil {
			return false, err
		}
		for e, err := range storeread.Readable(w.Events(ctx, all)) {
			if err != nil {
				return false, err
			}
			last = e.Time
		}
	}
	if first.IsZero() || last.Before(since) {
		return false, nil
	}
	if since.IsZero() {
		since = first.Add(-around)
	}
	until := last.Add(around)
	if now := time.Now(); now.Before(until) {
		until = now
	}
	from := first
	if begin := last.Add(-shortestTime); begin.Before(from) {
		from = begin
	}
	if from.Before(since) {
		from = since
	}
	w.why.Since, w.why.Until, w.why.From, w.why.To = milliseconds(since), milliseconds(until), milliseconds(from), milliseconds(last)
	return true, nil
}

func milliseconds(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }

// failed returns a query for the failures in a period.
func (w *whyReader) failed(from, to time.Time) kql.And {
	return append(slices.Clone(w.kind.Query().(kql.And)), during(from, to)...)
}

// handled returns a query for the messages that the queue handled in a period. Those that were replayed
// may have failed before.
func (w *whyReader) handled(from, to time.Time) kql.And {
	return append(kql.And{
		kql.FieldIs("event.action", string(schemas.Handled)), kql.FieldIs("watership.queue", w.kind.Queue),
		kql.Not{Node: kql.Exists{Field: kql.Pattern{"watership.replay.job"}}},
	}, during(from, to)...)
}

// others returns a query for the messages that the queue handled at other times than the failures.
func (w *whyReader) others() kql.And {
	return append(w.handled(w.why.Since, w.why.Until), kql.Not{Node: during(w.why.From, w.why.To)})
}

// compare fills in the result. If a period has more of the failures than chance explains, the messages of
// that period are compared: what merely changes with time is no cause then. It is compared with other
// times, since it may be what began or ended the failures, such as a new version of a publisher.
func (w *whyReader) compare(ctx context.Context) error {
	why := &w.why
	period, err := w.findPeriod(ctx)
	if err != nil {
		return err
	}
	failed, err := w.sample(ctx, w.failed(why.From, why.To), maxFailed, &why.Failures)
	if err != nil {
		return err
	}
	failed = withoutRepeated(failed)
	why.Failures.Read = len(failed)
	handled, err := w.sample(ctx, w.handled(why.From, why.To), maxHandled, &why.Handled)
	if err != nil {
		return err
	}
	var others []sampled
	if period != nil {
		if others, err = w.sample(ctx, w.others(), maxHandled/2, &why.Others); err != nil {
			return err
		}
	}
	if err := w.findBodies(ctx, failed, handled, others); err != nil {
		return err
	}
	failures, sameTime, otherTime := fieldsOf(failed), fieldsOf(handled), fieldsOf(others)
	why.Bodies = w.bodies(sameTime, otherTime)
	same := compare.Messages(failures, sameTime)
	why.Conditions = same.Compared
	if why.Causes, err = w.causes(ctx, same.Factors, SameTime); err != nil {
		return err
	}
	if period != nil {
		changed := compare.Messages(failures, otherTime)
		why.Conditions = max(why.Conditions, changed.Compared)
		along, err := w.causes(ctx, alongWithTime(changed.Factors, same.Factors), OtherTime)
		if err != nil {
			return err
		}
		why.Causes = append(why.Causes, inOrder(along, *period)...)
	}
	switch {
	case len(why.Causes) > 0:
		why.Outcome = Found
	case why.Handled.Read == 0:
		why.Outcome = NoneHandled
	case why.Conditions == 0:
		why.Outcome = FewFailures
	default:
		why.Outcome = Nothing
	}
	return nil
}

// withoutRepeated leaves out the failures of replays of failures that are there, too.
func withoutRepeated(failed []sampled) []sampled {
	known := map[string]bool{}
	for _, m := range failed {
		known[m.event.EventID] = true
	}
	return slices.DeleteFunc(failed, func(m sampled) bool { return known[m.event.ReplayOf] })
}

// alongWithTime returns the factors that almost all failures have, and that messages of the same time have as often.
func alongWithTime(changed, same []compare.Factor) (along []compare.Factor) {
	const almostAll = 0.9
	known := map[compare.Condition]bool{}
	for _, f := range same {
		for _, c := range append([]compare.Condition{f.Condition}, f.Same...) {
			known[c] = true
		}
	}
	for _, f := range changed {
		if f.Failed.Part() >= almostAll && !known[f.Condition] {
			along = append(along, f)
		}
	}
	return along
}

// inOrder puts the period after the conditions that few messages of another time fulfil: they say more, and
// the edges of the period may be a matter of chance. It is before the others, which only change with time, too.
func inOrder(along []Cause, period Cause) []Cause {
	const few = 0.2
	at := slices.IndexFunc(along, func(c Cause) bool { return c.Handled.share().Part() > few })
	if at < 0 {
		at = len(along)
	}
	return slices.Insert(along, at, period)
}
