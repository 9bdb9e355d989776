package replayer

import (
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas/query"
)

// AbsoluteTimes replaces each `now` in a query by the given time, so that a later run
// selects the same events. It expects a query that query.Resolve returned.
func AbsoluteTimes(node query.Node, fields query.Fields, now time.Time) query.Node {
	return query.Rewrite(node, func(leaf query.Node) query.Node {
		switch n := leaf.(type) {
		case query.Is:
			n.Value = fixedValue(n.Field, n.Value, fields, now)
			return n
		case query.Range:
			n.Value = fixedValue(n.Field, n.Value, fields, now)
			return n
		}
		return leaf
	})
}

func fixedValue(name query.Pattern, value query.Value, fields query.Fields, now time.Time) query.Value {
	math, relative := strings.CutPrefix(value.Pattern.Text(), "now")
	if !relative || value.Pattern.Wild() || !fields.IsDate(name) {
		return value
	}
	text := now.UTC().Format(query.InstantLayout)
	if math != "" {
		text += "||" + math
	}
	return query.Value{Pattern: query.Pattern{text}, Quoted: true}
}
