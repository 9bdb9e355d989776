// Package flattened decides whether Elasticsearch's flattened field accepts a JSON body
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/flattened.html).
package flattened

// The limits of a flattened field.
const (
	MaxDepth = 20
	MaxTerm  = 32766 // bytes of a key's path and its value together
)

// longestNumber is the longest number that Elasticsearch's parser accepts
// (StreamReadConstraints.getMaxNumberLength).
const longestNumber = 1000 // characters

// Elasticsearch holds each value with its whole path in memory, several times,
// while it indexes a document, and has no limit for that: a body of 2 MiB can crash
// a node of 1 GiB. The number of bytes that allTerms allows takes about a
// tenth of such a node.
const (
	allTerms     = 32 << 20 // bytes of all values with their paths
	termOverhead = 256      // additional bytes that each value counts
)

// Accepts reports whether a flattened field accepts the body: a JSON
// object (RFC 8259) with limited depth, no duplicate key, no NUL in a key, no value
// too long, no more values than most, and a limited total size. The body must be
// UTF-8.
//
// It scans the body once and without encoding/json, whose tokens would cost more
// than all other work on a message.
func Accepts(body []byte, most int) bool {
	s := scanner{data: body, room: allTerms, values: most}
	s.space()
	if s.at == len(body) || body[s.at] != '{' || !s.value(1, 0) {
		return false
	}
	s.space()
	return s.at == len(body)
}
