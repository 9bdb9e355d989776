// Package jsonappend writes JSON (RFC 8259) without reflection, by appending to a slice.
package jsonappend

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"time"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// String appends s as a JSON string (RFC 8259 §7). Bytes that are not UTF-8
// become U+FFFD; where they matter, the caller writes base64 instead.
func String(dst []byte, s string) []byte {
	return Quoted(dst, unsafe.Slice(unsafe.StringData(s), len(s))) // Quoted only reads it
}

// Quoted is String for bytes. Most texts need no escape. Of others it copies eight bytes at a
// time, and then removes the bytes that need an escape: JSON in a JSON string has a quote in
// every few bytes.
func Quoted(dst, s []byte) []byte {
	dst = append(dst, '"')
	plain := SkipPlain(s, 0)
	dst, s = append(dst, s[:plain]...), s[plain:]
	for len(s) >= 8 {
		word := binary.LittleEndian.Uint64(s)
		plain := plainBytes(word)
		dst = binary.LittleEndian.AppendUint64(dst, word)
		if s = s[plain:]; plain == 8 {
			continue
		}
		dst = dst[:len(dst)-8+plain]
		if c := s[0]; c == '"' || c == '\\' { // the most frequent case
			dst, s = append(dst, '\\', c), s[1:]
			continue
		}
		dst, s = appendSpecial(dst, s)
	}
	for len(s) > 0 {
		if isPlain(s[0]) {
			dst, s = append(dst, s[0]), s[1:]
		} else {
			dst, s = appendSpecial(dst, s)
		}
	}
	return append(dst, '"')
}

// appendSpecial appends the first character of s, which is not plain, and returns
// the rest of s.
func appendSpecial(dst, s []byte) (longer, rest []byte) {
	if s[0] < utf8.RuneSelf {
		return appendEscape(dst, s[0]), s[1:]
	}
	r, size := utf8.DecodeRune(s)
	if r == utf8.RuneError && size == 1 {
		return append(dst, "\ufffd"...), s[1:]
	}
	return append(dst, s[:size]...), s[size:]
}

// isPlain reports whether a byte can be copied without an escape: ASCII, but no
// control character, quote or backslash.
func isPlain(c byte) bool { return c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf }

// plainBytes returns the number of plain bytes at the start of eight bytes.
func plainBytes(w uint64) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^(ones*'"'), w^(ones*'\\')
	// A subtraction sets a byte's highest bit only if the byte is too small, or if
	// it follows such a byte, so the first bit found is always right.
	found := (w | (w - ones*' ') | (quote - ones) | (backslash - ones)) & highest
	return bits.TrailingZeros64(found) / 8 // 64 if no bit is set
}

// SkipPlain returns the index of the next byte that is not plain.
func SkipPlain(s []byte, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if plain := plainBytes(binary.LittleEndian.Uint64(s[i:])); plain < 8 {
			return i + plain
		}
	}
	if last := len(s) - 8; i < len(s) && last >= 0 { // zeros follow, which are not plain
		return i + plainBytes(binary.LittleEndian.Uint64(s[last:])>>(8*(i-last)))
	}
	for i < len(s) && isPlain(s[i]) {
		i++
	}
	return i
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// Base64 appends data as a JSON string in base64.
func Base64(dst, data []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// appendTime appends a time for Elasticsearch's strict_date_optional_time, in UTC,
// with microseconds, the precision of event.sequence. Its year has four digits.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = appendDigits(append(dst, '"'), year, 4)
	dst = appendDigits(append(dst, '-'), int(month), 2)
	dst = appendDigits(append(dst, '-'), day, 2)
	dst = appendDigits(append(dst, 'T'), hour, 2)
	dst = appendDigits(append(dst, ':'), minute, 2)
	dst = appendDigits(append(dst, ':'), second, 2)
	dst = appendDigits(append(dst, '.'), t.Nanosecond()/1000, 6)
	return append(dst, 'Z', '"')
}

func appendDigits(dst []byte, value, digits int) []byte {
	end := len(dst) + digits
	dst = append(dst, "000000"[:digits]...)
	for at := end - 1; value > 0 && at >= end-digits; at-- {
		dst[at] = byte('0' + value%10)
		value /= 10
	}
	return dst
}
