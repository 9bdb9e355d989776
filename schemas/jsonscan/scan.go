package jsonscan

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads the tokens of one JSON value.
type scanner struct {
	data  []byte
	at    int
	depth int
	err   error
}

// Fail sets the error of the reader, unless it has one already. Callers report
// values that are valid JSON but wrong for them.
func (s *scanner) Fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// null reads a null, if one follows.
func (s *scanner) null() bool {
	s.space()
	if !bytes.HasPrefix(s.data[s.at:], []byte("null")) {
		return s.err != nil
	}
	s.at += len("null")
	return true
}

// wrong sets a syntax error and skips the rest of the data.
func (s *scanner) wrong(what string) {
	s.Fail(fmt.Errorf("JSON: %s at byte %d", what, s.at))
	s.at = len(s.data)
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		// Most JSON has no white space: one comparison detects that.
		if c := s.data[s.at]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return
		}
		s.at++
	}
}

// open reads the start of an object or array. It returns false for a null.
func (s *scanner) open(with byte) bool {
	if s.null() {
		return false
	}
	if s.depth++; s.depth > deepest {
		s.wrong("nested too deep")
	}
	s.take(with)
	return s.err == nil
}

// next reports whether another member or element follows, and reads the comma
// before it, or the end of the object or array.
func (s *scanner) next(end byte, first bool) bool {
	if s.err != nil {
		return false
	}
	if s.space(); s.at < len(s.data) && s.data[s.at] == end {
		s.at++
		return false
	}
	if !first {
		s.take(',')
	}
	s.space()
	return s.err == nil
}

func (s *scanner) take(c byte) {
	if s.space(); s.at == len(s.data) || s.data[s.at] != c {
		s.wrong("expected " + string(rune(c)))
		return
	}
	s.at++
	s.space()
}

// Skip reads any value without decoding it.
func (s *scanner) Skip() {
	s.space()
	for open := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			s.string()
		case '{', '[':
			open++
			s.at++
		case '}', ']':
			open--
			s.at++
		case ',', ':', ' ', '\t', '\n', '\r':
			s.at++
		default:
			s.literal()
		}
		if open <= 0 {
			if open < 0 {
				s.wrong("expected a value")
			}
			return
		}
	}
	s.wrong("expected an end")
}

// Token returns the next token as it is written: a bracket, a comma, a colon, a string
// or a literal. It returns nil at the end and for an error. It does not check the order
// of tokens.
func (s *scanner) Token() []byte {
	if s.space(); s.at == len(s.data) {
		return nil
	}
	begin := s.at
	switch s.data[begin] {
	case '{', '}', '[', ']', ',', ':':
		s.at++
	case '"':
		s.string()
	default:
		s.literal()
	}
	if s.err != nil {
		return nil
	}
	return s.data[begin:s.at]
}

// literal reads a number, true, false or null.
func (s *scanner) literal() []byte {
	begin := s.at
	for s.at < len(s.data) && !endsLiteral(s.data[s.at]) {
		s.at++
	}
	if s.at == begin {
		s.wrong("expected a value")
		return nil
	}
	return s.data[begin:s.at]
}

func endsLiteral(c byte) bool {
	switch c {
	case ',', ':', '{', '}', '[', ']', '"', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// string scans a string. It returns the part between the quotes, and whether that
// has escapes.
func (s *scanner) string() (inside []byte, escaped bool) {
	if s.at == len(s.data) || s.data[s.at] != '"' {
		s.wrong("expected a string")
		return nil, false
	}
	begin := s.at + 1
	for at := begin; ; {
		at = special(s.data, at)
		switch {
		case at >= len(s.data):
			s.wrong("expected an end of the string")
			return nil, false
		case s.data[at] == '"':
			s.at = at + 1
			return s.data[begin:at], escaped
		}
		at, escaped = at+2, true
	}
}

// special returns the index of the next quote or backslash, or of the end of the
// data. It compares eight bytes at a time, which suits short strings.
func special(data []byte, at int) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	for ; at+8 <= len(data); at += 8 {
		word := binary.LittleEndian.Uint64(data[at:])
		quote, backslash := word^(ones*'"'), word^(ones*'\\')
		// The lowest bit found is always right: a subtraction borrows only upwards.
		if found := ((quote-ones)&^quote | (backslash-ones)&^backslash) & highest; found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(data) && data[at] != '"' && data[at] != '\\' {
		at++
	}
	return at
}

// quoted reads a string. Without escapes the result is a slice of the data.
func (s *scanner) quoted() []byte {
	inside, escaped := s.string()
	if !escaped {
		return inside
	}
	return s.plain(inside)
}

// plain returns a copy of a string's inside with its escapes decoded.
func (s *scanner) plain(inside []byte) []byte {
	plain := make([]byte, 0, len(inside))
	for {
		at := bytes.IndexByte(inside, '\\')
		if at < 0 {
			return append(plain, inside...)
		}
		plain = append(plain, inside[:at]...)
		if c := inside[at+1]; c == '"' || c == '\\' { // the most frequent case
			plain, inside = append(plain, c), inside[at+2:]
			continue
		}
		var size int
		if plain, size = appendEscaped(plain, inside[at:]); size == 0 {
			s.wrong("unknown escape")
			return nil
		}
		inside = inside[at+size:]
	}
}

// appendEscaped appends the character of an escape (RFC 8259 §7), and returns the
// length of the escape, 0 for an invalid one. Half of a surrogate pair becomes
// U+FFFD.
func appendEscaped(dst, escape []byte) ([]byte, int) {
	const names, values = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if at := bytes.IndexByte([]byte(names), escape[1]); at >= 0 {
		return append(dst, values[at]), 2
	}
	first, ok := unit(escape)
	if !ok {
		return dst, 0
	}
	if second, ok := unit(escape[6:]); ok && utf16.IsSurrogate(first) {
		if both := utf16.DecodeRune(first, second); both != utf8.RuneError {
			return utf8.AppendRune(dst, both), 12
		}
	}
	return utf8.AppendRune(dst, first), 6 // AppendRune writes U+FFFD for a surrogate
}

// unit decodes the UTF-16 code unit of \uXXXX.
func unit(escape []byte) (rune, bool) {
	if len(escape) < 6 || escape[0] != '\\' || escape[1] != 'u' {
		return 0, false
	}
	var value [2]byte
	if _, err := hex.Decode(value[:], escape[2:6]); err != nil {
		return 0, false
	}
	return rune(value[0])<<8 | rune(value[1]), true
}
