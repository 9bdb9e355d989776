package jsonscan

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

func (r *Reader) space() {
	for r.at < len(r.data) {
		// Most JSON has no white space: one comparison detects that.
		if c := r.data[r.at]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return
		}
		r.at++
	}
}

// open reads the start of an object or array. It returns false for a null.
func (r *Reader) open(with byte) bool {
	if r.null() {
		return false
	}
	if r.depth++; r.depth > deepest {
		r.wrong("nested too deep")
	}
	r.take(with)
	return r.err == nil
}

// next reports whether another member or element follows, and reads the comma
// before it, or the end of the object or array.
func (r *Reader) next(end byte, first bool) bool {
	if r.err != nil {
		return false
	}
	if r.space(); r.at < len(r.data) && r.data[r.at] == end {
		r.at++
		return false
	}
	if !first {
		r.take(',')
	}
	r.space()
	return r.err == nil
}

func (r *Reader) take(c byte) {
	if r.space(); r.at == len(r.data) || r.data[r.at] != c {
		r.wrong("expected " + string(rune(c)))
		return
	}
	r.at++
	r.space()
}

// Skip reads any value without decoding it.
func (r *Reader) Skip() {
	r.space()
	for open := 0; r.at < len(r.data); {
		switch r.data[r.at] {
		case '"':
			r.string()
		case '{', '[':
			open++
			r.at++
		case '}', ']':
			open--
			r.at++
		case ',', ':', ' ', '\t', '\n', '\r':
			r.at++
		default:
			r.literal()
		}
		if open <= 0 {
			if open < 0 {
				r.wrong("expected a value")
			}
			return
		}
	}
	r.wrong("expected an end")
}

// Token returns the next token as it is written: a bracket, a comma, a colon, a string
// or a literal. It returns nil at the end and for an error. It does not check the order
// of tokens.
func (r *Reader) Token() []byte {
	if r.space(); r.at == len(r.data) {
		return nil
	}
	begin := r.at
	switch r.data[begin] {
	case '{', '}', '[', ']', ',', ':':
		r.at++
	case '"':
		r.string()
	default:
		r.literal()
	}
	if r.err != nil {
		return nil
	}
	return r.data[begin:r.at]
}

// literal reads a number, true, false or null.
func (r *Reader) literal() []byte {
	begin := r.at
	for r.at < len(r.data) && !endsLiteral(r.data[r.at]) {
		r.at++
	}
	if r.at == begin {
		r.wrong("expected a value")
		return nil
	}
	return r.data[begin:r.at]
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
func (r *Reader) string() (inside []byte, escaped bool) {
	if r.at == len(r.data) || r.data[r.at] != '"' {
		r.wrong("expected a string")
		return nil, false
	}
	begin := r.at + 1
	for at := begin; ; {
		at = special(r.data, at)
		switch {
		case at >= len(r.data):
			r.wrong("expected an end of the string")
			return nil, false
		case r.data[at] == '"':
			r.at = at + 1
			return r.data[begin:at], escaped
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
func (r *Reader) quoted() []byte {
	inside, escaped := r.string()
	if !escaped {
		return inside
	}
	return r.plain(inside)
}

// plain returns a copy of a string's inside with its escapes decoded.
func (r *Reader) plain(inside []byte) []byte {
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
			r.wrong("unknown escape")
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
