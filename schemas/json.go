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
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			i++
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
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

// object appends a JSON object member by member; fields without a value are left out.
type object struct {
	dst   []byte
	empty bool
}

func beginObject(dst []byte) object { return object{append(dst, '{'), true} }

func (o *object) end() []byte { return append(o.dst, '}') }

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

// nested appends an object unless it comes out empty.
func (o *object) nested(name string, members func(*object)) {
	mark, wasEmpty := len(o.dst), o.empty
	o.key(name)
	inner := beginObject(o.dst)
	members(&inner)
	if inner.empty {
		o.dst, o.empty = o.dst[:mark], wasEmpty
		return
	}
	o.dst = inner.end()
}
