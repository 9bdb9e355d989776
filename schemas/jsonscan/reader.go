// Package jsonscan reads JSON of a known form several times as fast as
// encoding/json: in one pass, without reflection, and without decoding values that
// the caller does not read. It reads the responses of a store, of up to a thousand
// large documents.
//
// A skipped value is only scanned for its end. Everything else is checked, and the
// first fault is the Reader's error.
package jsonscan

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
)

// deepest is the greatest nesting depth of objects and arrays, as in encoding/json.
const deepest = 10_000

// Reader reads one JSON value (RFC 8259) from its beginning to its end. After an
// error every method returns the zero value; see Err. A null reads as the zero
// value of every type.
type Reader struct {
	scanner
	often *often // nil: no cache
}

// New returns a Reader of data, which must not change until the Reader is done.
func New(data []byte) *Reader { return &Reader{scanner: scanner{data: data}} }

// Err returns the first error, or nil.
func (r *Reader) Err() error { return r.err }

// End checks that only white space follows, and returns Err.
func (r *Reader) End() error {
	if r.space(); r.at < len(r.data) {
		r.wrong("expected no more after the value")
	}
	return r.err
}

// Object reads an object. It calls member with the name of each member; the name is
// valid during the call. If member does not read the value, Object skips it.
func (r *Reader) Object(member func(name []byte)) {
	if !r.open('{') {
		return
	}
	for first := true; r.next('}', first); first = false {
		name := r.quoted()
		if r.take(':'); r.err != nil {
			return
		}
		r.value(func() { member(name) })
	}
	r.depth--
}

// Array reads an array. It calls element for each element. If element does not read
// the value, Array skips it.
func (r *Reader) Array(element func()) {
	if !r.open('[') {
		return
	}
	for first := true; r.next(']', first); first = false {
		r.value(element)
	}
	r.depth--
}

func (r *Reader) value(read func()) {
	begin := r.at
	if read(); r.at == begin {
		r.Skip()
	}
}

// Text reads a string.
func (r *Reader) Text() string {
	if r.null() {
		return ""
	}
	if r.often == nil {
		return string(r.quoted())
	}
	return r.often.value(r.quoted()).(string)
}

// Peek returns the first byte of the next value or token without reading it: a quote for a
// string. It returns 0 at the end.
func (r *Reader) Peek() byte {
	if r.space(); r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

// Offset returns the number of bytes that were read.
func (r *Reader) Offset() int { return r.at }

// TextValue reads a string as an any, the type of a table's values.
func (r *Reader) TextValue() any {
	if r.null() {
		return ""
	}
	return r.often.value(r.quoted())
}

// TextBytes reads a string into new bytes, nil for a null.
func (r *Reader) TextBytes() []byte {
	if r.null() {
		return nil
	}
	inside, escaped := r.string()
	if escaped {
		return r.plain(inside)
	}
	return bytes.Clone(inside)
}

// Bytes reads a string in base64 (RFC 4648 §4). The result is nil only for a null.
func (r *Reader) Bytes() []byte {
	if r.null() {
		return nil
	}
	encoded := r.quoted()
	decoded, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(encoded))), encoded)
	if err != nil {
		r.wrong("expected base64")
	}
	return decoded
}

// Int reads an integer of the given size in bits.
func (r *Reader) Int(bits int) int64 {
	if r.null() {
		return 0
	}
	n, err := strconv.ParseInt(string(r.literal()), 10, bits)
	if err != nil {
		r.wrong(fmt.Sprintf("expected an integer of %d bits", bits))
	}
	return n
}

// Uint reads an unsigned integer of the given size in bits.
func (r *Reader) Uint(bits int) uint64 {
	if r.null() {
		return 0
	}
	n, err := strconv.ParseUint(string(r.literal()), 10, bits)
	if err != nil {
		r.wrong(fmt.Sprintf("expected an unsigned integer of %d bits", bits))
	}
	return n
}

// Float reads a number of the given size in bits.
func (r *Reader) Float(bits int) float64 {
	if r.null() {
		return 0
	}
	n, err := strconv.ParseFloat(string(r.literal()), bits)
	if err != nil {
		r.wrong(fmt.Sprintf("expected a number of %d bits", bits))
	}
	return n
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	if r.null() {
		return false
	}
	word := string(r.literal())
	if word != "true" && word != "false" {
		r.wrong("expected true or false")
	}
	return word == "true"
}

// Time reads a string with a time (RFC 3339).
func (r *Reader) Time() time.Time {
	if r.null() {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, string(r.quoted()))
	if err != nil {
		r.wrong("expected a time (RFC 3339)")
	}
	return t
}

// Raw returns any value undecoded, as a slice of the reader's data.
func (r *Reader) Raw() []byte {
	r.space()
	begin := r.at
	r.Skip()
	if r.err != nil {
		return nil
	}
	return r.data[begin:r.at]
}

// Part reads one value with its own reader and returns the error of that
// reader, so that r can continue after the value. Offsets in the error count from
// the start of the value.
func (r *Reader) Part(read func(*Reader)) error {
	r.space()
	part := Reader{scanner{data: r.data[r.at:], depth: r.depth}, r.often}
	read(&part)
	if part.err != nil {
		r.Skip()
		return part.err
	}
	r.at += part.at
	return nil
}
