package rabbit

import "encoding/binary"

// What the client library reads of one value; more ends the connection (its read.go).
const (
	clientDepth    = 32
	clientElements = 8192
)

// entry is one name and value of a table on the wire (AMQP 0-9-1 §4.2.5.5).
type entry struct {
	name    []byte
	kind    byte
	content []byte // of the value, without its length
	whole   []byte // name and value as they came
}

// firstEntry splits the first entry off a table. It cannot where the entry does
// not end within the table, or is of a kind whose length nobody knows.
func firstEntry(table []byte) (e entry, rest []byte, ok bool) {
	kind := kindAt(table, 0)
	content, end := valueAt(table, kind)
	if end < 0 {
		return entry{}, nil, false
	}
	return entry{table[1:kind], table[kind], table[content:end], table[:end]}, table[end:], true
}

// eachEntry returns the end of the table that cannot be taken apart, if any.
func eachEntry(table []byte, f func(entry)) []byte {
	for len(table) > 0 {
		e, rest, ok := firstEntry(table)
		if !ok {
			break
		}
		f(e)
		table = rest
	}
	return table
}

// kindAt is where the value begins whose name is at b[at].
func kindAt(b []byte, at int) int {
	if at >= len(b) {
		return len(b)
	}
	return at + 1 + int(b[at])
}

// valueAt is where the content of the value at b[at] begins and ends; end is -1
// where nobody can say. It takes places, not slices, since all that comes passes here.
func valueAt(b []byte, at int) (content, end int) {
	if at >= len(b) {
		return at, -1
	}
	content = at + 1
	size := fixedSize(b[at])
	if size == ofOwnLength {
		if len(b)-content < 4 {
			return content, -1
		}
		size = int(binary.BigEndian.Uint32(b[content:]))
		content += 4
	}
	if size < 0 || size > len(b)-content {
		return content, -1
	}
	return content, content + size
}

const (
	ofOwnLength = -1 // the value begins with its length
	unknown     = -2
)

// fixedSize is the size of a value of one of RabbitMQ's field types
// (https://www.rabbitmq.com/docs/amqp-0-9-1-errata#section_3).
func fixedSize(kind byte) int {
	switch kind {
	case 'S', 'x', 'F', 'A':
		return ofOwnLength
	case 'V':
		return 0
	case 't', 'b', 'B':
		return 1
	case 's', 'u':
		return 2
	case 'I', 'i', 'f':
		return 4
	case 'D':
		return 5
	case 'l', 'd', 'T':
		return 8
	}
	return unknown
}

// A verdict is what the client library would say to a value.
type verdict int

const (
	readable verdict = iota
	tooMuch          // it nests too deep or has too many elements for the client
	strange          // it holds a type that we do not know either
	broken           // it is not as AMQP says
)

// container is a table or an array that has been entered.
type container struct {
	rest  []byte
	named bool // a table
	count int
}

// judge reads a value without reading it: it does not recurse, and allocates
// only for what nests deeper than depth.
func judge(kind byte, content []byte, depth, elements int) verdict {
	if kind != 'F' && kind != 'A' {
		return readable
	}
	var room [clientDepth]container
	inside := append(room[:0], container{rest: content, named: kind == 'F'})
	for len(inside) > 0 {
		c := &inside[len(inside)-1]
		if len(c.rest) == 0 {
			inside = inside[:len(inside)-1]
			continue
		}
		kind, content, v := c.next()
		switch {
		case v != readable:
			return v
		case c.count > elements:
			return tooMuch
		case kind != 'F' && kind != 'A':
			continue
		case len(inside) == depth:
			return tooMuch
		}
		inside = append(inside, container{rest: content, named: kind == 'F'})
	}
	return readable
}

// next takes the next value.
func (c *container) next() (kind byte, content []byte, v verdict) {
	b, at := c.rest, 0
	if c.named {
		at = kindAt(b, 0)
	}
	from, end := valueAt(b, at)
	switch {
	case end >= 0:
		c.rest = b[end:]
		c.count++
		return b[at], b[from:end], readable
	case at < len(b) && fixedSize(b[at]) == unknown:
		return 0, nil, strange
	}
	return 0, nil, broken
}
