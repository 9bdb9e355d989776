package replayer

import (
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
)

// AbsoluteTimes replaces each `now` in a query by the given time, so that a later run
// selects the same events. It expects a query that kql.Resolve returned.
func AbsoluteTimes(node kql.Node, fields kql.Fields, now time.Time) kql.Node {
	return kql.Rewrite(node, func(leaf kql.Node) kql.Node {
		switch n := leaf.(type) {
		case kql.Is:
			n.Value = fixedValue(n.Field, n.Value, fields, now)
			return n
		case kql.Range:
			n.Value = fixedValue(n.Field, n.Value, fields, now)
			return n
		}
		return leaf
	})
}

func fixedValue(name kql.Pattern, value kql.Value, fields kql.Fields, now time.Time) kql.Value {
	math, relative := strings.CutPrefix(value.Pattern.Text(), "now")
	if !relative || value.Pattern.Wild() || !fields.IsDate(name) {
		return value
	}
	text := now.UTC().Format(kql.InstantLayout)
	if math != "" {
		text += "||" + math
	}
	return kql.Value{Pattern: kql.Pattern{text}, Quoted: true}
}
