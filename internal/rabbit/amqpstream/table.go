package amqpstream

import "encoding/binary"

// Limits of the client library for one value; a value over them ends the connection
// (read.go of amqp091-go).
const (
	maxDepth    = 32
	maxElements = 8192
)

// entry is one name and value of a table on the wire (AMQP 0-9-1 §4.2.5.5).
type entry struct {
	name    []byte
	kind    byte
	content []byte // of the value, without its length prefix
	encoded []byte // name and value as received
}

// firstEntry splits the first entry off a table. It fails where the entry exceeds
// the table or has an unknown type, whose length cannot be computed.
func firstEntry(table []byte) (e entry, rest []byte, ok bool) {
	value := valueOffset(table, 0)
	content, end := contentOffsets(table, value)
	if end < 0 {
		return entry{}, nil, false
	}
	return entry{table[1:value], table[value], table[content:end], table[:end]}, table[end:], true
}

// eachEntry calls f for each entry, and returns the rest of the table that cannot be
// split into entries, if any.
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

// valueOffset returns the offset of the value whose name starts at b[at].
func valueOffset(b []byte, at int) int {
	if at >= len(b) {
		return len(b)
	}
	return at + 1 + int(b[at])
}

// contentOffsets returns the start and end of the content of the value at b[at]; end is -1
// where it exceeds b or has an unknown type. It uses offsets, not slices, for
// speed: every received message passes through it.
func contentOffsets(b []byte, at int) (content, end int) {
	if at >= len(b) {
		return at, -1
	}
	content = at + 1
	size := fixedSize(b[at])
	if size == sizePrefixed {
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
	sizePrefixed = -1 // the value starts with its length
	sizeUnknown  = -2
)

// fixedSize returns the size of a value by RabbitMQ's field type
// (https://www.rabbitmq.com/docs/amqp-0-9-1-errata#section_3).
func fixedSize(kind byte) int {
	switch kind {
	case 'S', 'x', 'F', 'A':
		return sizePrefixed
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
	return sizeUnknown
}

// validity is the result of checkValue: whether the client library can decode a
// value, and if not, why.
type validity int

const (
	decodable   validity = iota
	overLimit            // more than maxDepth or maxElements
	unknownType          // a field type unknown to fixedSize too
	malformed            // it exceeds its table
)

// container is a table or array being read.
type container struct {
	rest  []byte
	named bool // a table
	count int
}

// checkValue checks a value without decoding it. It does not recurse, and allocates
// only for values nested deeper than maxDepth.
func checkValue(kind byte, content []byte, depth, elements int) validity {
	if kind != 'F' && kind != 'A' {
		return decodable
	}
	var array [maxDepth]container
	nested := append(array[:0], container{rest: content, named: kind == 'F'})
	for len(nested) > 0 {
		c := &nested[len(nested)-1]
		if len(c.rest) == 0 {
			nested = nested[:len(nested)-1]
			continue
		}
		kind, content, v := c.next()
		switch {
		case v != decodable:
			return v
		case c.count > elements:
			return overLimit
		case kind != 'F' && kind != 'A':
			continue
		case len(nested) == depth:
			return overLimit
		}
		nested = append(nested, container{rest: content, named: kind == 'F'})
	}
	return decodable
}

// next splits off the next value.
func (c *container) next() (kind byte, content []byte, v validity) {
	b, at := c.rest, 0
	if c.named {
		at = valueOffset(b, 0)
	}
	from, end := contentOffsets(b, at)
	switch {
	case end >= 0:
		c.rest = b[end:]
		c.count++
		return b[at], b[from:end], decodable
	case at < len(b) && fixedSize(b[at]) == sizeUnknown:
		return 0, nil, unknownType
	}
	return 0, nil, malformed
}
