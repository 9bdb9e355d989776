package schemas

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// isSearchableObject reports whether a flattened field accepts the body: a JSON
// object (RFC 8259) with limited depth, no duplicate key, no NUL in a key, no value
// too long, no more values than most, and a limited total size. The body must be
// UTF-8.
//
// It scans the body once and without encoding/json, whose tokens would cost more
// than all other work on a message.
func isSearchableObject(body []byte, most int) bool {
	s := scanner{data: body, room: flattenedTerms, values: most}
	s.space()
	if s.at == len(body) || body[s.at] != '{' || !s.value(1, 0) {
		return false
	}
	s.space()
	return s.at == len(body)
}

// longestNumber is the longest number that Elasticsearch's parser accepts
// (StreamReadConstraints.getMaxNumberLength).
const longestNumber = 1000 // characters

// Elasticsearch holds each value with its whole path in memory, several times,
// while it indexes a document, and has no limit for that: a body of 2 MiB can crash
// a node of 1 GiB. The number of bytes that flattenedTerms allows takes about a
// tenth of such a node.
const (
	flattenedTerms = 32 << 20 // bytes of all values with their paths
	termOverhead   = 256      // additional bytes that each value counts
)

type scanner struct {
	data   []byte
	at     int
	room   int // bytes left of flattenedTerms
	values int // number of values that are still allowed

	// keys are the keys of the open objects, as far as there is room. They are
	// offsets into data, since pointers would let the scanner escape to the heap.
	keys  [32]place
	known int
}

// value scans a value that is nested in depth objects and arrays and whose path of
// keys has path bytes.
func (s *scanner) value(depth, path int) bool {
	s.space()
	if s.at == len(s.data) {
		return false
	}
	begin := s.at
	switch c := s.data[s.at]; c {
	case '{':
		return depth <= flattenedDepth && s.object(depth, path)
	case '[':
		return depth <= flattenedDepth && s.array(depth, path)
	case '"':
		_, ok := s.string()
		return ok && s.term(path+s.at-begin)
	case 't':
		return s.literal("true", path)
	case 'f':
		return s.literal("false", path)
	case 'n':
		return s.literal("null", path)
	}
	return s.number() && s.at-begin <= longestNumber && s.term(path+s.at-begin)
}

// term reports whether a value with its path, of this many bytes, still fits the
// limits.
func (s *scanner) term(bytes int) bool {
	s.room -= bytes + termOverhead
	s.values--
	return bytes < flattenedTerm && s.room >= 0 && s.values >= 0
}

func (s *scanner) object(depth, path int) bool {
	s.at++
	outer := s.known
	var own keys
	for first := true; s.next('}', first); first = false {
		key, at, ok := s.key()
		if !ok || s.seen(key, at, outer, &own) {
			return false
		}
		if !s.skip(':') || !s.value(depth+1, path+len(key)+1) {
			return false
		}
	}
	s.known = outer
	return s.skip('}')
}

func (s *scanner) array(depth, path int) bool {
	s.at++
	for first := true; s.next(']', first); first = false {
		if !s.value(depth+1, path) {
			return false
		}
	}
	return s.skip(']')
}

// next reports whether another member or element follows, and reads the comma
// before it. After invalid JSON it returns false, and the caller finds no end.
func (s *scanner) next(end byte, first bool) bool {
	s.space()
	if s.at == len(s.data) || s.data[s.at] == end {
		return false
	}
	return first || s.skip(',')
}

func (s *scanner) skip(c byte) bool {
	s.space()
	if s.at == len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) literal(word string, path int) bool {
	if !bytes.HasPrefix(s.data[s.at:], []byte(word)) || !s.term(path+len(word)) {
		return false
	}
	s.at += len(word)
	return true
}

// string scans a string, and reports whether it has escapes and whether it is
// valid.
func (s *scanner) string() (escaped, ok bool) {
	for s.at++; s.at < len(s.data); {
		if s.at = skipPlain(s.data, s.at); s.at == len(s.data) {
			break
		}
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return escaped, true
		case c >= utf8.RuneSelf:
			s.at++
		case c != '\\' || !s.escape():
			return false, false
		default:
			escaped = true
		}
	}
	return false, false
}

func (s *scanner) escape() bool {
	s.at++
	if s.at == len(s.data) {
		return false
	}
	c := s.data[s.at]
	s.at++
	if c != 'u' {
		return strings.IndexByte(`"\/bfnrt`, c) >= 0
	}
	for end := s.at + 4; s.at < end; s.at++ {
		if s.at == len(s.data) || strings.IndexByte("0123456789abcdefABCDEF", s.data[s.at]) < 0 {
			return false
		}
	}
	return true
}

func (s *scanner) number() bool {
	s.one("-")
	if !s.one("0") && s.digits() == 0 {
		return false
	}
	if s.one(".") && s.digits() == 0 {
		return false
	}
	if s.one("eE") {
		s.one("+-")
		return s.digits() > 0
	}
	return true
}

func (s *scanner) one(of string) bool {
	if s.at < len(s.data) && strings.IndexByte(of, s.data[s.at]) >= 0 {
		s.at++
		return true
	}
	return false
}

func (s *scanner) digits() int {
	begin := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at - begin
}
