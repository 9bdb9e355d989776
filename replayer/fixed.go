package replayer

import (
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas/query"
)

// Fixed is a query with the time in place of every `now`, so that it selects
// the same tomorrow. It takes what query.Resolve gives.
func Fixed(node query.Node, fields query.Fields, now time.Time) query.Node {
	fix := func(n query.Node) query.Node { return Fixed(n, fields, now) }
	switch n := node.(type) {
	case query.And:
		return query.And(each(n, fix))
	case query.Or:
		return query.Or(each(n, fix))
	case query.Not:
		return query.Not{Node: fix(n.Node)}
	case query.Is:
		n.Value = fixedValue(n.Field, n.Value, fields, now)
		return n
	case query.Range:
		n.Value = fixedValue(n.Field, n.Value, fields, now)
		return n
	}
	return node
}

func each(nodes []query.Node, f func(query.Node) query.Node) []query.Node {
	list := make([]query.Node, len(nodes))
	for i, node := range nodes {
		list[i] = f(node)
	}
	return list
}

func fixedValue(name query.Pattern, value query.Value, fields query.Fields, now time.Time) query.Value {
	math, relative := strings.CutPrefix(value.Pattern.Text(), "now")
	if !relative || value.Pattern.Wild() || !isDate(name, fields) {
		return value
	}
	text := now.UTC().Format("2006-01-02T15:04:05.000Z")
	if math != "" {
		text += "||" + math
	}
	return query.Value{Pattern: query.Pattern{text}, Quoted: true}
}

func isDate(name query.Pattern, fields query.Fields) bool {
	if !name.Wild() {
		field, known := fields.Lookup(name.Text())
		return known && field.Type == query.Date
	}
	for _, field := range fields.Match(name) {
		if field.Type == query.Date {
			return true
		}
	}
	return false
}
