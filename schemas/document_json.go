package schemas

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// isSearchableObject says whether a flattened field takes the body: a JSON
// object (RFC 8259), not too deep, no duplicate key, no NUL in a key, no value
// too long, no more values than most, and all of them together not too large. The
// body must be UTF-8.
//
// It reads the body once and by itself: the standard library's tokens would
// cost more than everything else that is done to a message.
func isSearchableObject(body []byte, most int) bool {
	s := scanner{data: body, room: flattenedTerms, values: most}
	s.space()
	if s.at == len(body) || body[s.at] != '{' || !s.value(1, 0) {
		return false
	}
	s.space()
	return s.at == len(body)
}

// longestNumber is the most that Elasticsearch's parser reads of one
// (StreamReadConstraints.getMaxNumberLength).
const longestNumber = 1000 // characters

// Elasticsearch holds each value with the whole path to it, several times over,
// while it indexes a document, and nothing bounds that: a body of 2 MiB can end a
// node of 1 GiB. What flattenedTerms allows takes about a tenth of such a node.
const (
	flattenedTerms = 32 << 20 // bytes of all values with their paths
	termOverhead   = 256      // bytes that each of them counts besides
)

type scanner struct {
	data   []byte
	at     int
	room   int // bytes left of flattenedTerms
	values int // that may still come

	// The keys of the objects that are open, as far as there is room: places in
	// data, since pointers would let the scanner escape to the heap.
	keys  [32]place
	known int
}

// value reads a value that is depth objects and arrays deep and whose keys so
// far have path bytes.
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

// term says whether a value of so many bytes with its path can be taken, too.
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

// next says whether another member or element follows, and reads the comma
// before it. Where something is wrong, what is read next will not fit.
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

// string reads a string, and says whether it has escapes and whether it is one.
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
