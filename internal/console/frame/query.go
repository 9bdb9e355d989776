package frame

import (
	"strings"
	"unicode/utf8"
)

// maxQuery is the number of characters of the longest query that the API reads.
const maxQuery = 4000

// FitsQuery reports whether the API reads a query of this length.
func FitsQuery(query string) bool { return utf8.RuneCountInString(query) <= maxQuery }

// Within returns a query for the events that match two queries. The star for all events
// matches texts where it is not alone.
func Within(query, other string) string {
	query = strings.TrimSpace(query)
	switch {
	case query == "" || query == "*":
		if other == "" {
			return "*"
		}
		return other
	case other == "":
		return query
	}
	return "(" + query + ") and (" + other + ")"
}
