package history

import (
	"context"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// When a group is new, and when it escalates: a few failures more than before are chance.
const (
	newFor        = 24 * time.Hour
	minEscalating = 10 // failures of the last hour
	escalation    = 3  // times the failures of the hour before
)

// trend counts the failures of a group by their age, including resolved ones.
type trend struct {
	now                  time.Time
	first                eventstore.EventSummary // the one with the lowest sequence
	lastHour, hourBefore int
}

// add counts a failure. Failures come in the order of their sequences.
func (t *trend) add(failure eventstore.EventSummary) {
	if t.first.EventID == "" {
		t.first = failure
	}
	switch age := t.now.Sub(failure.Time); {
	case age < time.Hour:
		t.lastHour++
	case age < 2*time.Hour:
		t.hourBefore++
	}
}

// setTrends sets which groups are new and which escalate. pasts have all failures of the groups if whole is set;
// otherwise others count, too.
func (f Failures) setTrends(ctx context.Context, now time.Time, groups map[Kind]*Group, pasts map[Kind]*past, whole bool) error {
	recent, unsure := map[Kind]*trend{}, map[Kind]*Group{}
	for kind, g := range groups {
		t := pasts[kind].trend
		recent[kind] = &t
		g.New = !g.Regressed && now.Sub(t.first.Time) < newFor
		if g.New && f.Resolved[kind] > 0 { // setRegressed has read the first failure of each other group
			unsure[kind] = g
		}
	}
	if !whole {
		if err := f.countRecent(ctx, now, recent); err != nil {
			return err
		}
		if err := f.findOlder(ctx, now.Add(-newFor), unsure); err != nil {
			return err
		}
	}
	for kind, g := range groups {
		g.LastHour, g.HourBefore = recent[kind].lastHour, recent[kind].hourBefore
		g.Escalating = !g.New && g.LastHour >= minEscalating && g.LastHour >= escalation*g.HourBefore
	}
	return nil
}

// countRecent counts the trends of kinds anew, over all their failures of the last two hours. A query with a
// period has only some of these.
func (f Failures) countRecent(ctx context.Context, now time.Time, trends map[Kind]*trend) error {
	for kind := range trends {
		trends[kind] = &trend{now: now}
	}
	lately := kql.And{GivenUp(), errorGroups(trends), byTime(kql.GreaterOrEqual, now.Add(-2*time.Hour))}
	for failure, err := range f.Store.Summaries(ctx, eventstore.Selection{Query: lately, UpTo: f.UpTo}) {
		if err != nil {
			return err
		}
		if t := trends[KindOf(failure)]; t != nil {
			t.add(failure)
		}
	}
	return nil
}

// findOlder finds the groups that have failures before a time, which are not new. It deletes them from the map, and
// reads the failures of all groups at once, since a list may have thousands of groups.
func (f Failures) findOlder(ctx context.Context, at time.Time, groups map[Kind]*Group) error {
	if len(groups) == 0 {
		return nil
	}
	older := kql.And{GivenUp(), errorGroups(groups), before(at)}
	for failure, err := range f.Store.Summaries(ctx, eventstore.Selection{Query: older, UpTo: f.UpTo}) {
		if err != nil {
			return err
		}
		kind := KindOf(failure)
		if g := groups[kind]; g != nil {
			g.New = false
		}
		if delete(groups, kind); len(groups) == 0 {
			break
		}
	}
	return nil
}

// before returns a query for the events before a time.
func before(at time.Time) kql.Node { return byTime(kql.Less, at) }

func byTime(op kql.Op, at time.Time) kql.Node {
	return kql.Range{
		Field: kql.Pattern{"@timestamp"}, Op: op, Value: kql.Value{Pattern: kql.Pattern{at.UTC().Format(time.RFC3339Nano)}, Quoted: true},
	}
}
