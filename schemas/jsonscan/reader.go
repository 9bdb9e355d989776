// Package jsonscan reads JSON whose form the caller knows, several times as
// fast as encoding/json: in one pass, without reflection, and past whatever the
// caller does not ask for. It is for what a store gives back, a thousand large
// documents at a time.
//
// What is skipped is not checked beyond where it ends. Everything else is, and
// the first thing that is wrong is the Reader's error.
package jsonscan

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
)

// deepest is how many objects and arrays may be within one another, as in
// encoding/json.
const deepest = 10_000

// Reader reads one JSON value (RFC 8259) from its beginning to its end. After
// an error every method gives the zero value; see Err. A null is the zero value
// of whatever is asked for.
type Reader struct {
	data  []byte
	at    int
	depth int
	err   error
	often *often // nil: strings are made anew
}

// New returns a reader of data, which must not change while it reads.
func New(data []byte) *Reader { return &Reader{data: data} }

// Err is the first thing that was wrong; nil if nothing was.
func (r *Reader) Err() error { return r.err }

// Fail makes err the error of the reader, unless it has one: the caller found
// something wrong with what it read.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// End is for the end of the data, behind which there may be nothing but space.
// It returns Err.
func (r *Reader) End() error {
	if r.space(); r.at < len(r.data) {
		r.wrong("something behind the end")
	}
	return r.err
}

// Object reads an object. It calls member with the name of each of its members,
// which is valid during the call; a member that the call does not read is
// skipped.
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

// Array reads an array. It calls element for each of its elements; one that the
// call does not read is skipped.
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

// TextValue is Text as a value of a table.
func (r *Reader) TextValue() any {
	if r.null() {
		return ""
	}
	return r.often.value(r.quoted())
}

// TextBytes reads a string as bytes of the caller's own, nil for a null.
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

// Bytes reads a string that is base64 (RFC 4648 §4). They are not nil unless it
// is null.
func (r *Reader) Bytes() []byte {
	if r.null() {
		return nil
	}
	encoded := r.quoted()
	decoded, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(encoded))), encoded)
	if err != nil {
		r.wrong("no base64")
	}
	return decoded
}

// Int reads a whole number of so many bits.
func (r *Reader) Int(bits int) int64 {
	if r.null() {
		return 0
	}
	n, err := strconv.ParseInt(string(r.literal()), 10, bits)
	if err != nil {
		r.wrong("no whole number of its size")
	}
	return n
}

// Uint reads a whole number of so many bits that is not below zero.
func (r *Reader) Uint(bits int) uint64 {
	if r.null() {
		return 0
	}
	n, err := strconv.ParseUint(string(r.literal()), 10, bits)
	if err != nil {
		r.wrong("no whole number of its size")
	}
	return n
}

// Float reads a number of so many bits.
func (r *Reader) Float(bits int) float64 {
	if r.null() {
		return 0
	}
	n, err := strconv.ParseFloat(string(r.literal()), bits)
	if err != nil {
		r.wrong("no number of its size")
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
		r.wrong("neither true nor false")
	}
	return word == "true"
}

// Time reads a string that is a time (RFC 3339).
func (r *Reader) Time() time.Time {
	if r.null() {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, string(r.quoted()))
	if err != nil {
		r.wrong("no time")
	}
	return t
}

// Raw reads any value and gives it as it is, a part of the reader's data.
func (r *Reader) Raw() []byte {
	r.space()
	begin := r.at
	r.Skip()
	if r.err != nil {
		return nil
	}
	return r.data[begin:r.at]
}

// Part has a value read by a reader of its own, whose error, which it returns,
// does not concern this one: that goes on behind the value. Bytes in the error
// are counted from the beginning of the value.
func (r *Reader) Part(read func(*Reader)) error {
	r.space()
	part := Reader{data: r.data[r.at:], depth: r.depth, often: r.often}
	read(&part)
	if part.err != nil {
		r.Skip()
		return part.err
	}
	r.at += part.at
	return nil
}

// null reads a null, if there is one.
func (r *Reader) null() bool {
	r.space()
	if !bytes.HasPrefix(r.data[r.at:], []byte("null")) {
		return r.err != nil
	}
	r.at += len("null")
	return true
}

// wrong ends the reading, with all of the data behind it.
func (r *Reader) wrong(what string) {
	r.Fail(fmt.Errorf("JSON: %s at byte %d", what, r.at))
	r.at = len(r.data)
}
