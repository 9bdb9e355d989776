package query

import (
	"strings"
	"time"
)

// InZone makes instants of the dates whose meaning depends on a time zone: those
// without one, and those calculated in the calendar, such as now/d or now-1M. They are
// in the zone of now, as Kibana takes them to be in that of its setting dateFormat:tz;
// a store takes them to be UTC, as it does what is compared with a pattern of fields:
// for those that are no dates it means something else. The node is one that [Resolve]
// gave.
func InZone(node Node, fields Fields, now time.Time) Node {
	return Rewrite(node, func(leaf Node) Node {
		switch n := leaf.(type) {
		case Is:
			if n.Field != nil && fields.isOneDate(n.Field) && n.Value.dependsOnZone() {
				return And{
					InZone(Range{n.Field, GreaterOrEqual, n.Value, n.At}, fields, now),
					InZone(Range{n.Field, LessOrEqual, n.Value, n.At}, fields, now),
				}
			}
		case Range:
			if fields.isOneDate(n.Field) && n.Value.dependsOnZone() {
				n.Value = n.Value.instant(now, n.Op.End())
				return n
			}
		}
		return leaf
	})
}

// dependsOnZone says whether a date names another instant in another zone.
func (v Value) dependsOnZone() bool {
	text := v.Pattern.Text()
	if v.Pattern.Wild() || !isDate(text) {
		return false
	}
	math, relative := strings.CutPrefix(text, "now")
	if !relative {
		var anchor string
		anchor, math, _ = strings.Cut(text, "||")
		if parts := instant.FindStringSubmatch(anchor); parts != nil && parts[3] == "" {
			return true
		}
	}
	return strings.ContainsAny(math, "/dwMy")
}

func (v Value) instant(now time.Time, end End) Value {
	at, err := Instant(v.Pattern.Text(), now, end)
	if err != nil {
		return v
	}
	return Value{Pattern: Pattern{at.Format(InstantLayout)}, Quoted: true, At: v.At}
}

// InstantLayout is how we write an instant in a query: whole to the millisecond, so
// that it stands for nothing longer.
const InstantLayout = "2006-01-02T15:04:05.000Z"

// Rewrite gives a tree with other leaves.
func Rewrite(node Node, leaf func(Node) Node) Node {
	each := func(nodes []Node) []Node {
		list := make([]Node, len(nodes))
		for i, n := range nodes {
			list[i] = Rewrite(n, leaf)
		}
		return list
	}
	switch n := node.(type) {
	case And:
		return And(each(n))
	case Or:
		return Or(each(n))
	case Not:
		return Not{Rewrite(n.Node, leaf)}
	}
	return leaf(node)
}

func (f Fields) isOneDate(name Pattern) bool { return !name.Wild() && f.IsDate(name) }

// IsDate says whether a name is a date's, or one of those that a pattern finds.
func (f Fields) IsDate(name Pattern) bool {
	if !name.Wild() {
		field, known := f.Lookup(name.Text())
		return known && field.Type == Date
	}
	for _, field := range f.Match(name) {
		if field.Type == Date {
			return true
		}
	}
	return false
}
