package kql

import (
	"strings"
	"time"
)

// AbsoluteTimes replaces each `now` in a query by the given time, so that it selects the
// same events later. It expects a query that Resolve returned.
func AbsoluteTimes(node Node, fields Fields, now time.Time) Node {
	return Rewrite(node, func(leaf Node) Node {
		switch n := leaf.(type) {
		case Is:
			n.Value = fixedValue(n.Field, n.Value, fields, now)
			return n
		case Range:
			n.Value = fixedValue(n.Field, n.Value, fields, now)
			return n
		}
		return leaf
	})
}

func fixedValue(name Pattern, value Value, fields Fields, now time.Time) Value {
	math, relative := strings.CutPrefix(value.Pattern.Text(), "now")
	if !relative || value.Pattern.Wild() || !fields.IsDate(name) {
		return value
	}
	text := now.UTC().Format(InstantLayout)
	if math != "" {
		text += "||" + math
	}
	return Value{Pattern: Pattern{text}, Quoted: true}
}
