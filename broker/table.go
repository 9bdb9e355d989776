package broker

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
)

// table is an encoded field table (§4.2.5.5) without its length. It stays encoded, so
// that consumers get the bytes of the publisher. It has the types of RabbitMQ
// (https://www.rabbitmq.com/amqp-0-9-1-errata).
type table []byte

// field is a value of a table or an array.
type field struct {
	kind byte
	raw  []byte // the encoded value without its type and length
}

// fields yields the names and values of a table, up to the first error.
func (t table) fields() iter.Seq2[string, field] {
	return func(yield func(string, field) bool) {
		d := decoder{rest: t}
		for len(d.rest) > 0 {
			name, f := d.shortstr(), d.field()
			if d.bad || !yield(name, f) {
				return
			}
		}
	}
}

// items yields the values of an array.
func (f field) items() iter.Seq[field] {
	return func(yield func(field) bool) {
		d := decoder{rest: f.raw}
		for len(d.rest) > 0 {
			item := d.field()
			if d.bad || !yield(item) {
				return
			}
		}
	}
}

// lookup returns the first field with a name.
func (t table) lookup(name string) (field, bool) {
	for key, f := range t.fields() {
		if key == name {
			return f, true
		}
	}
	return field{}, false
}

func (d *decoder) field() field {
	kind := d.octet()
	switch kind {
	case 'S', 'x', 'A', 'F':
		return field{kind, d.longstr()}
	}
	size, known := fixedSize(kind)
	if !known {
		d.bad = true
	}
	return field{kind, d.take(size)}
}

func fixedSize(kind byte) (size int, known bool) {
	switch kind {
	case 'V':
		return 0, true
	case 't', 'b', 'B':
		return 1, true
	case 's', 'u':
		return 2, true
	case 'I', 'i', 'f':
		return 4, true
	case 'D':
		return 5, true
	case 'l', 'L', 'd', 'T':
		return 8, true
	}
	return 0, false
}

// validate returns the error of RabbitMQ for a malformed table. The size of a frame
// limits the nesting.
func (t table) validate() *exception {
	d := decoder{rest: t}
	for len(d.rest) > 0 {
		d.shortstr()
		if err := d.validateField(); err != nil {
			return err
		}
	}
	return nil
}

func validateArray(raw []byte) *exception {
	d := decoder{rest: raw}
	for len(d.rest) > 0 {
		if err := d.validateField(); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) validateField() *exception {
	f := d.field()
	switch {
	case d.bad || f.notANumber():
		return newException(internalError, "a table cannot be read")
	case f.kind == 'F':
		return table(f.raw).validate()
	case f.kind == 'A':
		return validateArray(f.raw)
	}
	return nil
}

// notANumber reports whether a float is NaN or infinite, which RabbitMQ refuses.
func (f field) notANumber() bool {
	number, ok := f.float()
	return ok && (math.IsNaN(number) || math.IsInf(number, 0))
}

// text returns the value of a string.
func (f field) text() (string, bool) {
	return string(f.raw), f.kind == 'S'
}

// integer returns the value of any integer type.
func (f field) integer() (int64, bool) {
	switch f.kind {
	case 'b':
		return int64(int8(f.raw[0])), true
	case 'B':
		return int64(f.raw[0]), true
	case 's':
		return int64(int16(binary.BigEndian.Uint16(f.raw))), true
	case 'u':
		return int64(binary.BigEndian.Uint16(f.raw)), true
	case 'I':
		return int64(int32(binary.BigEndian.Uint32(f.raw))), true
	case 'i':
		return int64(binary.BigEndian.Uint32(f.raw)), true
	case 'l', 'L':
		return int64(binary.BigEndian.Uint64(f.raw)), true
	}
	return 0, false
}

func (f field) float() (float64, bool) {
	switch {
	case f.kind == 'f' && len(f.raw) == 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(f.raw))), true
	case f.kind == 'd' && len(f.raw) == 8:
		return math.Float64frombits(binary.BigEndian.Uint64(f.raw)), true
	}
	return 0, false
}

func (f field) boolean() (value, ok bool) {
	return f.kind == 't' && f.raw[0] != 0, f.kind == 't'
}

// number returns the value of an integer, a timestamp or a float.
func (f field) number() (integer int64, fraction float64, ok bool) {
	if f.kind == 'T' {
		integer = int64(binary.BigEndian.Uint64(f.raw))
		return integer, float64(integer), true
	}
	if integer, ok = f.integer(); ok {
		return integer, float64(integer), true
	}
	fraction, ok = f.float()
	return int64(fraction), fraction, ok
}

// equal compares values, also of different types of one family: integers and
// timestamps, floats, strings and byte arrays.
func (f field) equal(other field) bool {
	if f.family() != other.family() {
		return false
	}
	if a, x, isNumber := f.number(); isNumber {
		b, y, _ := other.number()
		return a == b && x == y
	}
	return bytes.Equal(f.raw, other.raw)
}

func (f field) family() byte {
	switch f.kind {
	case 'x', 'S':
		return 'S'
	case 'f', 'd':
		return 'd'
	case 'b', 'B', 's', 'u', 'I', 'i', 'l', 'L', 'T':
		return 'l'
	}
	return f.kind
}
