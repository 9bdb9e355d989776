package schemas

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string (RFC 8259 §7). Bytes that are not
// UTF-8 become U+FFFD: where that would lose something, the caller writes
// base64 instead.
func appendString(dst []byte, s string) []byte {
	return appendQuoted(dst, unsafe.Slice(unsafe.StringData(s), len(s))) // which only reads it
}

func appendQuoted(dst, s []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i := skipPlain(s, 0); i < len(s); i = skipPlain(s, i) {
		if c := s[i]; c < utf8.RuneSelf {
			dst = appendEscape(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(append(dst, s[start:i]...), "\ufffd"...)
			start = i + 1
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// skipPlain is the place of the next byte that cannot simply be copied: a
// control character, a quote, a backslash or one beyond ASCII. It looks at
// eight bytes at a time where there are as many.
func skipPlain(s []byte, i int) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, backslash := w^(ones*'"'), w^(ones*'\\')
		// Subtracting borrows into a byte's highest bit only where the byte is
		// too small, or behind one that is: the first found is right.
		if found := (w | (w - ones*' ') | (quote - ones) | (backslash - ones)) & highest; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
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

func appendBase64(dst, data []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// appendTime writes a time as Elasticsearch's strict_date_optional_time reads
// it, in UTC, with microseconds, which is as fine as event.sequence. Its year
// has four digits.
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
	o.anyKey(name)
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

// key begins a member with a name of ours, which needs no escapes.
func (o *object) key(name string) {
	o.comma()
	o.dst = appendName(o.dst, name)
}

// anyKey begins a member with any name.
func (o *object) anyKey(name string) {
	o.comma()
	o.dst = append(appendString(o.dst, name), ':')
}

func (o *object) comma() {
	if !o.empty {
		o.dst = append(o.dst, ',')
	}
	o.empty = false
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
