// Package flattened writes what Elasticsearch's flattened field accepts of a JSON body
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

// whole reports whether the field accepts the object that follows, up to the end: an object
// (RFC 8259) with limited depth, no duplicate key, no NUL in a key, no value too long, no more
// values than the scanner allows, and a limited total size. The body must be UTF-8.
//
// It scans the body once and without encoding/json, whose tokens would cost more
// than all other work on a message.
func (s *scanner) whole() bool {
	if !s.value(1, 0) {
		return false
	}
	s.space()
	return s.at == len(s.data)
}
