package analyzer

import (
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// SplitPattern splits a pattern at its spaces, as Elasticsearch's query_string does,
// which Kibana uses for patterns in texts: `conn* out` matches either of the two.
func SplitPattern(pattern kql.Pattern) []kql.Pattern {
	var list []kql.Pattern
	piece := kql.Pattern{}
	for _, part := range pattern {
		texts := strings.Split(strings.Map(asSpace, part), " ")
		piece = append(piece, texts[0])
		for _, next := range texts[1:] {
			list = append(list, piece)
			piece = kql.Pattern{next}
		}
	}
	list = append(list, piece)
	return slices.DeleteFunc(list, func(p kql.Pattern) bool { return !p.Wild() && p[0] == "" })
}

// asSpace maps the white space of query_string to a space.
func asSpace(r rune) rune {
	if strings.ContainsRune("\t\n\r\u3000", r) {
		return ' '
	}
	return r
}
