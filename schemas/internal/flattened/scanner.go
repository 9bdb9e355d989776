package flattened

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
)

// scanner scans a JSON value and counts the values and paths of its flattened field.
type scanner struct {
	data   []byte
	at     int
	room   int // bytes left of allTerms
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
		return depth <= MaxDepth && s.object(depth, path)
	case '[':
		return depth <= MaxDepth && s.array(depth, path)
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
	return bytes < MaxTerm && s.room >= 0 && s.values >= 0
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
		if s.at = jsonappend.SkipPlain(s.data, s.at); s.at == len(s.data) {
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
