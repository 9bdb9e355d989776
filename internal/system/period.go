package system

import (
	"regexp"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// Period limits a query to a period. Since is a duration such as 7d; From and To are
// times or date math such as now-1d/d. Empty: no limit.
type Period struct {
	Since, From, To string

	Zone *time.Location // of times without one; nil: the zone of the machine
}

// now returns the time in the zone of the period.
func (p Period) now() time.Time {
	if p.Zone == nil {
		return time.Now()
	}
	return time.Now().In(p.Zone)
}

// Limit adds the period to a query. Its errors are InputErrors.
func (p Period) Limit(node kql.Node) (kql.Node, error) {
	if p.Since != "" && p.From != "" {
		return nil, InputError{&FieldError{[]Field{SinceField, FromField}, "cannot be combined"}}
	}
	from := p.From
	if p.Since != "" {
		from = ago(p.Since)
	}
	all := kql.And{node}
	for _, bound := range []struct {
		op   kql.Op
		text string
		err  error
	}{
		{kql.GreaterOrEqual, from, p.beginError()},
		{kql.Less, p.To, fieldErrorf(ToField, "%q: %s", p.To, expectedTime)},
	} {
		if bound.text == "" {
			continue
		}
		compared, err := timeBound(bound.op, bound.text, p.now())
		if err != nil {
			return nil, bound.err
		}
		all = append(all, compared)
	}
	if len(all) == 1 {
		return node, nil
	}
	return all, p.checkOrder()
}

const expectedTime = "expected a time such as 2026-05-04T03:00:00Z, 2026-05-04 or now-1d"

// beginError returns the error of a begin that is invalid.
func (p Period) beginError() error {
	if p.Since != "" {
		return fieldErrorf(SinceField, "%q: expected a duration such as 15m, 1h30m or 7d", p.Since)
	}
	return fieldErrorf(FromField, "%q: %s", p.From, expectedTime)
}

// Bounds returns the times at which the period begins and ends; zero: no limit.
func (p Period) Bounds() (begin, end time.Time, err error) {
	from := p.From
	if p.Since != "" {
		from = ago(p.Since)
	}
	for _, bound := range []struct {
		text string
		at   *time.Time
	}{{from, &begin}, {p.To, &end}} {
		if bound.text == "" {
			continue
		}
		if *bound.at, err = kql.Instant(kql.DateTime(bound.text), p.now(), kql.First); err != nil {
			return begin, end, err
		}
	}
	return begin, end, nil
}

// checkOrder returns an error if no time is in the period.
func (p Period) checkOrder() error {
	begin, end, err := p.Bounds()
	if err == nil && !begin.IsZero() && !end.IsZero() && !begin.Before(end) {
		return InputError{&EmptyPeriodError{begin, end}}
	}
	return err
}

// steps divides the period into at most n steps, beginning with the first event of a
// selection unless the period has a begin. The error is for a period that Limit refuses.
func (p Period) steps(n int, first func() (time.Time, error)) (eventstore.Steps, error) {
	begin, end, err := p.Bounds()
	if err != nil {
		return eventstore.Steps{}, err
	}
	if end.IsZero() {
		end = p.now()
	}
	if begin.IsZero() || end.Sub(begin) > longestPeriod {
		if begin, err = first(); err != nil || begin.IsZero() {
			return eventstore.Steps{}, err
		}
	}
	last := end.Add(-time.Millisecond) // the end is not in the period
	if last.Before(begin) {
		last = begin
	}
	return eventstore.NewSteps(begin, last, n, p.now().Location()), nil
}

// longestPeriod is the longest period that histograms show as a whole.
const longestPeriod = 20 * 365 * 24 * time.Hour

// ago returns date math for a duration, in which several amounts may follow one
// another, as Go writes them: 1h30m.
func ago(duration string) string {
	return "now" + regexp.MustCompile(`\d+[a-zA-Z]`).ReplaceAllString(duration, "-$0")
}

// timeBound compares @timestamp with a time, which is in the zone of now if it has none.
func timeBound(op kql.Op, text string, now time.Time) (kql.Node, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return nil, err
	}
	compared, err := kql.Resolve(kql.Range{
		Field: kql.Pattern{"@timestamp"}, Op: op,
		Value: kql.Value{Pattern: kql.Pattern{kql.DateTime(text)}, Quoted: true},
	}, fields)
	if err != nil {
		return nil, err
	}
	return kql.InZone(compared, fields, now), nil
}
