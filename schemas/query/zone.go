package query

import (
	"strings"
	"time"
)

// InZone makes instants of the dates whose meaning depends on a time zone: those
// without one, and those calculated in the calendar, such as now/d or now-1M. They are
// in the zone of now, as Kibana takes them to be in that of its setting dateFormat:tz;
// a store takes them to be UTC. For the fields of a pattern that are no dates the text
// means something else, so each field gets a node of its own. The node is one that
// [Resolve] gave.
func InZone(node Node, fields Fields, now time.Time) Node {
	return Rewrite(node, func(leaf Node) Node {
		switch n := leaf.(type) {
		case Is:
			if n.Field != nil && n.Value.dependsOnZone() && fields.IsDate(n.Field) {
				return fields.apart(n.Field, n.Fits, func(f Field) Node { return n.inZone(f, now) })
			}
		case Range:
			if n.Value.dependsOnZone() && fields.IsDate(n.Field) {
				return fields.apart(n.Field, n.Fits, func(f Field) Node { return n.inZone(f, now) })
			}
		}
		return leaf
	})
}

// apart makes a node of each field that a name or pattern stands for.
func (f Fields) apart(name Pattern, fits func(Field) bool, node func(Field) Node) Node {
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
