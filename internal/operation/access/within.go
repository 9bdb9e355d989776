package access

import (
	"slices"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Within reports whether a query finds only events that the identity may see: it has no limits, or
// the query has them as a condition, as Restrict adds them.
func (i Identity) Within(query string) bool {
	if !i.Limited() {
		return i.Role != 0
	}
	node, err := kql.Parse(query)
	return err == nil && i.Role != 0 && slices.Contains(conjuncts(node), i.visible().String())
}

// conjuncts returns the conditions that a query combines with and, as texts.
func conjuncts(node kql.Node) []string {
	and, is := node.(kql.And)
	if !is {
		return []string{node.String()}
	}
	var all []string
	for _, part := range and {
		all = append(all, conjuncts(part)...)
	}
	return all
}
