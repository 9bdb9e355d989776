package jsonappend

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// Object appends a JSON object member by member. It omits members without a value
// and nested objects without members.
type Object struct {
	Dst   []byte // the JSON so far
	empty bool
}

// Begin begins an object; End ends it.
func Begin(dst []byte) Object { return Object{append(dst, '{'), true} }

// End ends the object and returns all that was appended.
func (o *Object) End() []byte { return append(o.Dst, '}') }

// Nested is the place where a nested object begins.
type Nested struct {
	mark  int
	empty bool
}

// Open begins a nested object whose name is a constant of Watership and needs no escapes;
// Close ends it.
func (o *Object) Open(name string) Nested {
	begun := Nested{len(o.Dst), o.empty}
	o.Key(name)
	o.Dst, o.empty = append(o.Dst, '{'), true
	return begun
}

// OpenAny is Open for any name.
func (o *Object) OpenAny(name string) Nested {
	begun := Nested{len(o.Dst), o.empty}
	o.AnyKey(name)
	o.Dst, o.empty = append(o.Dst, '{'), true
	return begun
}

// Close ends a nested object, or removes it if it has no members.
func (o *Object) Close(begun Nested) {
	if o.empty {
		o.Dst, o.empty = o.Dst[:begun.mark], begun.empty
		return
	}
	o.Dst = append(o.Dst, '}')
}

// Key begins a member whose name is a constant of Watership and needs no escapes.
func (o *Object) Key(name string) {
	o.comma()
	o.Dst = Name(o.Dst, name)
}

// AnyKey begins a member with any name.
func (o *Object) AnyKey(name string) {
	o.comma()
	o.Dst = append(String(o.Dst, name), ':')
}

func (o *Object) comma() {
	if !o.empty {
		o.Dst = append(o.Dst, ',')
	}
	o.empty = false
}

// String appends a text, unless it is empty.
func (o *Object) String(name, value string) {
	if value != "" {
		o.Key(name)
		o.Dst = String(o.Dst, value)
	}
}

// Member appends an object with one text, unless it is empty.
func (o *Object) Member(object, name, value string) {
	begun := o.Open(object)
	o.String(name, value)
	o.Close(begun)
}

// Int appends a number.
func (o *Object) Int(name string, value int64) {
	o.Key(name)
	o.Dst = strconv.AppendInt(o.Dst, value, 10)
}

// Positive appends a number above zero.
func (o *Object) Positive(name string, value int64) {
	if value > 0 {
		o.Int(name, value)
	}
}

// Time appends a time in UTC, unless it is zero.
func (o *Object) Time(name string, value time.Time) {
	if !value.IsZero() {
		o.Key(name)
		o.Dst = appendTime(o.Dst, value)
	}
}

// Exact appends a text that may be no UTF-8, unless it is empty: as name, or as name64
// in base64.
func (o *Object) Exact(name, value string) {
	if value != "" {
		o.comma()
		o.Dst = Exact(o.Dst, name, value)
	}
}

// Exact appends a member with the exact s: as name, or as name64 in base64 if
// s is not UTF-8.
func Exact(dst []byte, name, s string) []byte {
	if utf8.ValidString(s) {
		return String(Name(dst, name), s)
	}
	return Base64(Name(dst, name+"64"), []byte(s))
}

// Name appends a key that needs no escapes, and its colon.
func Name(dst []byte, name string) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}
