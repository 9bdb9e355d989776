package flattened

import (
	"bytes"
	"encoding/json"
	"strings"
)

// place is the position of a key without escapes in the scanner's data.
type place struct{ begin, end int }

// key scans a key and decodes its escapes. Only a key without escapes has a place.
func (s *scanner) key() (key []byte, at place, ok bool) {
	s.space()
	begin := s.at
	if s.at == len(s.data) || s.data[s.at] != '"' {
		return nil, place{}, false
	}
	escaped, ok := s.string()
	if !ok {
		return nil, place{}, false
	}
	if !escaped {
		at = place{begin + 1, s.at - 1}
		return s.data[at.begin:at.end], at, true
	}
	var text string
	if json.Unmarshal(s.data[begin:s.at], &text) != nil || strings.IndexByte(text, 0) >= 0 {
		return nil, place{}, false
	}
	return []byte(text), place{}, true
}

// keys are the keys of an object that have no place in the scanner.
type keys struct {
	marks uint64          // one bit for each key of the object; several keys may share a bit
	rest  map[string]bool // keys with escapes, and keys beyond the room of the scanner
}

// seen records a key, and reports whether the object had it before. The object's
// places start at index outer.
func (s *scanner) seen(key []byte, at place, outer int, own *keys) bool {
	before := own.marks
	if own.marks |= mark(key); own.marks == before && s.has(key, outer, own) {
		return true
	}
	if at.end > 0 && s.known < len(s.keys) {
		s.keys[s.known] = at
		s.known++
		return false
	}
	if own.rest == nil {
		own.rest = map[string]bool{}
	}
	own.rest[string(key)] = true
	return false
}

func (s *scanner) has(key []byte, outer int, own *keys) bool {
	for _, other := range s.keys[outer:s.known] {
		if len(key) == other.end-other.begin && bytes.Equal(key, s.data[other.begin:other.end]) {
			return true
		}
	}
	return own.rest[string(key)]
}

// mark returns one bit of 64, chosen by the length and the end of a key, in which
// most keys differ.
func mark(key []byte) uint64 {
	sum := len(key)
	for _, c := range key[max(0, len(key)-4):] {
		sum = 11*sum + int(c)
	}
	return 1 << (sum & 63)
}
