package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Kind has the values that the failures of a group share.
type Kind struct {
	Queue string `json:"queue"`
	Class string `json:"class,omitempty"`
	Type  string `json:"type,omitempty"`
	Group string `json:"error_group"`
}

// ID returns a short name of the kind, for people who type it.
func (k Kind) ID() string {
	hash := sha256.New()
	for _, part := range []string{k.Queue, k.Class, k.Type, k.Group} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(hash.Sum(nil)[:5]))
}

// IsID reports whether a text has the form of the ID of a kind.
func IsID(text string) bool {
	return len(text) == 8 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// KindOf returns the kind of a failure.
func KindOf(failure eventstore.EventSummary) Kind {
	return Kind{Queue: failure.Queue, Class: failure.Class, Type: failure.ErrorType, Group: failure.ErrorGroup}
}

// KindIn returns the kind whose failures a query selects, all of them or those that meet further conditions.
func KindIn(query string) (Kind, bool) {
	node, err := kql.Parse(query)
	if err != nil {
		return Kind{}, false
	}
	conditions, values := map[string]bool{}, map[string]string{}
	for _, part := range conjuncts(node) {
		conditions[part.String()] = true
		if is, of := part.(kql.Is); of && len(is.Field) == 1 && len(is.Value.Pattern) == 1 {
			values[is.Field[0]] = is.Value.Pattern[0]
		}
	}
	kind := Kind{
		Queue: values["watership.queue"], Class: values["watership.class"], Type: values["error.type"], Group: values["watership.error_group"],
	}
	for _, part := range kind.Events() {
		if !conditions[part.String()] {
			return Kind{}, false
		}
	}
	return kind, true
}

// conjuncts returns the conditions that a query combines with and.
func conjuncts(node kql.Node) []kql.Node {
	and, is := node.(kql.And)
	if !is {
		return []kql.Node{node}
	}
	var all []kql.Node
	for _, part := range and {
		all = append(all, conjuncts(part)...)
	}
	return all
}

// Group has the failures of a kind.
type Group struct {
	ID string `json:"id" doc:"Short name of the queue, class, error type and error group"`
	Kind
	Count   int       `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example string    `json:"example"` // an id of the newest message, for Find
	Query   string    `json:"query"`   // finds the failures, including resolved ones

	Regressed bool `json:"regressed" doc:"It fails again after it was resolved: by an operator, or since all of its failures were"`

	New        bool `json:"new" doc:"It failed for the first time within the last day, and has not regressed"`
	Escalating bool `json:"escalating" doc:"It is not new, and the last hour has at least ten failures and three times as many as the hour before it"`
	LastHour   int  `json:"last_hour" doc:"Failures of the last hour, including resolved ones"`
	HourBefore int  `json:"hour_before" doc:"Failures of the hour before it, including resolved ones"`

	Histogram Histogram `json:"histogram"`

	UpTo int64 `json:"up_to" doc:"event.sequence of its newest failure"`
}

// Groups returns the unresolved failures that match a query by their kinds, the most
// frequent first.
func (f Failures) Groups(ctx context.Context, node kql.Node) ([]*Group, error) {
	return f.groups(ctx, node, isAll(node))
}

// GroupsOf returns the groups of some kinds that have unresolved failures among the visible ones.
func (f Failures) GroupsOf(ctx context.Context, kinds []Kind, visible kql.Node) ([]*Group, error) {
	var either kql.Or
	for _, kind := range kinds {
		either = append(either, kind.Query())
	}
	return f.groups(ctx, kql.And{either, visible}, true)
}

// groups returns the groups of the failures that match a query, which finds all failures of each group if whole
// is set.
func (f Failures) groups(ctx context.Context, node kql.Node, whole bool) ([]*Group, error) {
	now, groups, pasts := time.Now(), map[Kind]*Group{}, map[Kind]*past{}
	for failure, err := range f.all(ctx, node, eventstore.Cursor{}) {
		if err != nil {
			return nil, err
		}
		kind := KindOf(failure.EventSummary)
		if pasts[kind] == nil {
			pasts[kind] = &past{trend: trend{now: now}}
		}
		pasts[kind].add(failure)
		if failure.Resolved() {
			continue
		}
		if groups[kind] == nil {
			groups[kind] = &Group{ID: kind.ID(), Kind: kind, First: failure.Time, Query: kind.Query().String()}
		}
		groups[kind].add(failure.EventSummary)
	}
	if err := f.setRegressed(ctx, groups, pasts, node); err != nil {
		return nil, err
	}
	if err := f.setTrends(ctx, now, groups, pasts, whole); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Query, b.Query))
	}), nil
}

func (g *Group) add(failure eventstore.EventSummary) {
	g.Count++
	g.UpTo = max(g.UpTo, failure.Sequence)
	g.Histogram.add(failure.Time, 1)
	if failure.Time.Before(g.First) {
		g.First = failure.Time
	}
	if !failure.Time.Before(g.Last) {
		g.Last = failure.Time
		g.Example = cmp.Or(failure.MessageID, failure.Message, failure.EventID)
	}
}

// UpTo returns a query for the events up to a sequence.
func UpTo(sequence int64) kql.Node {
	return kql.Range{
		Field: kql.Pattern{"event.sequence"}, Op: kql.LessOrEqual, Value: kql.Value{Pattern: kql.Pattern{strconv.FormatInt(sequence, 10)}, Quoted: true},
	}
}

// Query returns a query for the failures of a kind, including resolved ones.
func (k Kind) Query() kql.Node {
	all := kql.And{kql.FieldIs("event.action", string(schemas.Poisoned))}
	if k.Type == string(schemas.Quarantined) {
		all = kql.And{GivenUp()}
	}
	return append(all, k.Events()...)
}

// Events returns a query for all events of a kind.
func (k Kind) Events() kql.And {
	var all kql.And
	for _, part := range []struct{ field, value string }{
		{"watership.queue", k.Queue}, {"watership.class", k.Class}, {"error.type", k.Type}, {"watership.error_group", k.Group},
	} {
		if part.value == "" {
			all = append(all, kql.Not{Node: kql.Exists{Field: kql.Pattern{part.field}}})
		} else {
			all = append(all, kql.FieldIs(part.field, part.value))
		}
	}
	return all
}
