package frame

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/watershipmq/watership/eventstore/kql"
)

// maxQuery is the number of characters of the longest query that the API reads.
const maxQuery = 4000

// FitsQuery reports whether the API reads a query of this length.
func FitsQuery(query string) bool { return utf8.RuneCountInString(query) <= maxQuery }

// Within returns a query for the events that match two queries. An empty one is for all events, as the star is,
// which matches texts where it is not alone.
func Within(query, other string) string {
	query, other = strings.TrimSpace(query), strings.TrimSpace(other)
	switch {
	case query == "" || query == "*":
		return cmp.Or(other, "*")
	case other == "" || other == "*":
		return query
	}
	return operand(query) + " and " + operand(other)
}

// operand returns a query as an operand of and: in parentheses, unless it means the same without them.
func operand(query string) string {
	node, err := kql.Parse(query)
	switch node.(type) {
	case kql.Is, kql.Exists, kql.Range, kql.Not, kql.And:
		if err == nil {
			return query
		}
	}
	return "(" + query + ")"
}
