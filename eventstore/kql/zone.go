package kql

import (
	"strings"
	"time"
)

// InZone replaces the dates that depend on a time zone by instants: dates without a
// zone, and dates with calendar arithmetic, such as now/d or now-1M. It reads them
// in the zone of now, as Kibana does with its setting dateFormat:tz; a store would
// read them in UTC. In a field that is no date the text has another meaning, so
// each field of a pattern gets its own node. The node must come from [Resolve].
func InZone(node Node, fields Fields, now time.Time) Node {
	return Rewrite(node, func(leaf Node) Node {
		switch n := leaf.(type) {
		case Is:
			if n.Field != nil && n.Value.dependsOnZone() && fields.IsDate(n.Field) {
				return fields.splitByField(n.Field, n.Fits, func(f Field) Node { return n.inZone(f, now) })
			}
		case Range:
			if n.Value.dependsOnZone() && fields.IsDate(n.Field) {
				return fields.splitByField(n.Field, n.Fits, func(f Field) Node { return n.inZone(f, now) })
			}
		}
		return leaf
	})
}

// splitByField returns one node for each field of a name or pattern, joined by Or.
func (f Fields) splitByField(name Pattern, fits func(Field) bool, node func(Field) Node) Node {
	var nodes Or
	for _, field := range f.Expand(name, fits) {
		nodes = append(nodes, node(field))
	}
	if len(nodes) == 1 {
		return nodes[0]
	}
	return nodes
}

func (n Is) inZone(field Field, now time.Time) Node {
	n.Field = Pattern{field.Name}
	if field.Type != Date {
		return n
	}
	return And{
		Range{n.Field, GreaterOrEqual, n.Value, n.At}.inZone(field, now),
		Range{n.Field, LessOrEqual, n.Value, n.At}.inZone(field, now),
	}
}

func (n Range) inZone(field Field, now time.Time) Node {
	n.Field = Pattern{field.Name}
	if field.Type == Date {
		n.Value = n.Value.instant(now, n.Op.End())
	}
	return n
}

// dependsOnZone reports whether a date is another instant in another zone.
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

// InstantLayout is the layout of instants in a query: with milliseconds, so that
// the span of the date is one millisecond.
const InstantLayout = "2006-01-02T15:04:05.000Z"

// Rewrite returns a copy of a tree with each leaf replaced.
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

// IsDate reports whether the name is a date field, or a pattern that matches one.
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
