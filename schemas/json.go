package schemas

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string (RFC 8259 §7). Bytes that are not
// UTF-8 become U+FFFD: where that would lose something, the caller writes
// base64 instead.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if i = skipPlain(s, i); i == len(s) {
			break
		}
		size, replacement := 1, ""
		if c := s[i]; c >= utf8.RuneSelf {
			var r rune
			if r, size = decodeRune(s, i); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			replacement = "\ufffd"
		}
		dst = append(dst, s[start:i]...)
		if replacement != "" {
			dst = append(dst, replacement...)
		} else {
			dst = appendEscape(dst, s[i])
		}
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// skipPlain is the place of the next byte that cannot simply be copied, eight
// bytes at a time where there are as many.
func skipPlain[T string | []byte](s T, i int) int {
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if !plain(w) {
			break
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// plain says whether none of eight bytes is a control character, a quote, a
// backslash or beyond ASCII: subtracting borrows into a byte's highest bit only
// where the byte is too small.
func plain(w uint64) bool {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^(ones*'"'), w^(ones*'\\')
	return (w|(w-ones*' ')|(quote-ones)|(backslash-ones))&highest == 0
}

func decodeRune[T string | []byte](s T, i int) (rune, int) {
	return utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
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

func appendBase64(dst, data []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// appendTime writes a time as Elasticsearch's strict_date_optional_time reads it, in UTC.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, timeLayout)
	return append(dst, '"')
}

// timeLayout has microseconds, which is as fine as event.sequence.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// object appends a JSON object member by member; members without a value are
// left out, and so are objects within it that come out empty.
type object struct {
	dst   []byte
	empty bool
}

func beginObject(dst []byte) object { return object{append(dst, '{'), true} }

func (o *object) end() []byte { return append(o.dst, '}') }

// opened is where an object within an object begins.
type opened struct {
	mark  int
	empty bool
}

// open begins an object within the object, to be ended by close.
func (o *object) open(name string) opened {
	begun := opened{len(o.dst), o.empty}
	o.key(name)
	o.dst, o.empty = append(o.dst, '{'), true
	return begun
}

func (o *object) close(begun opened) {
	if o.empty {
		o.dst, o.empty = o.dst[:begun.mark], begun.empty
		return
	}
	o.dst = append(o.dst, '}')
}

func (o *object) key(name string) {
	if !o.empty {
		o.dst = append(o.dst, ',')
	}
	o.empty = false
	o.dst = appendString(o.dst, name)
	o.dst = append(o.dst, ':')
}

func (o *object) string(name, value string) {
	if value != "" {
		o.key(name)
		o.dst = appendString(o.dst, value)
	}
}

func (o *object) int(name string, value int64) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, value, 10)
}

func (o *object) positive(name string, value int64) {
	if value > 0 {
		o.int(name, value)
	}
}

func (o *object) time(name string, value time.Time) {
	if !value.IsZero() {
		o.key(name)
		o.dst = appendTime(o.dst, value)
	}
}
