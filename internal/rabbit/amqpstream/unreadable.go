package amqpstream

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/watershipmq/watership/internal/wire/header"
)

// UnreadableHeaders is the name of the header that holds the headers of a delivery
// that the client library cannot decode: nested deeper than 32, more than 8,192 in
// one table, or of an unknown field type. Otherwise every delivery of such a
// message would end the connection. The value is a byte array: the unchanged
// encoding of the headers as entries of a table, sorted by name, since brokers
// change their order.
//
// A message published with this header, on any connection, is sent with the
// original headers in its place, so a consumer that republishes a message
// republishes them unchanged. A received header of this name counts as unreadable
// too, so publishing restores it.
//
// Headers that control RabbitMQ or Watership are not included: see isControl.
//
// The name has no prefix of Watership or RabbitMQ: other packages treat it like any
// header, as part of a message's identity.
const UnreadableHeaders = "unreadable-headers"

// UnreadableCC is the name of the header that holds a CC or BCC that the client
// library cannot decode, in the encoding of UnreadableHeaders. It is for
// information only: it is published unchanged, and never turned back into CC or
// BCC.
const UnreadableCC = "unreadable-cc"

// UnreadableDeath is the name of a void header that stands for an x-death which the client
// library cannot decode. RabbitMQ before 4.0 keeps the x-death of a publisher when
// it adds an entry for a dead letter, so that its absence would prove nothing. It is not
// published again.
const UnreadableDeath = "watership-unreadable-death"

// stash returns a frame that the client library can decode in place of one that it
// cannot; nil for one that it can.
func stash(frame []byte) []byte {
	start, end, ok := headersOf(frame)
	if !ok {
		return nil
	}
	headers := frame[start:end]
	fits, tooMany := checkHeaders(headers)
	if fits {
		return nil
	}
	table, unreadable, cc := split(headers, tooMany)
	if len(unreadable) > 0 {
		table = appendByteArray(table, UnreadableHeaders, unreadable)
	}
	if len(cc) > 0 {
		table = appendByteArray(table, UnreadableCC, cc)
	}
	return replaceHeaders(frame, start, end, table)
}

// maxConstantHeaders is the maximum number of headers that are constant on every
// hop. It leaves the client library room for those that change: the set of headers
// moved into UnreadableHeaders must be the same on every hop.
const maxConstantHeaders = maxElements - 192

// checkHeaders reports whether the client library can decode all headers, and if not,
// whether there are too many of them. Every received message passes through it.
func checkHeaders(table []byte) (fits, tooMany bool) {
	all, at := 0, 0
	fits = true
	for at < len(table) {
		value := valueOffset(table, at)
		content, end := contentOffsets(table, value)
		if end < 0 {
			fits = false
			break
		}
		fits = fits && clientDecodes(table[at+1:value], table[value], table[content:end])
		all++
		at = end
	}
	if all > maxConstantHeaders {
		tooMany = all > maxElements || countConstant(table) > maxConstantHeaders
	}
	return fits && !tooMany, tooMany
}

// countConstant counts the headers that are constant on every hop.
func countConstant(table []byte) (n int) {
	eachEntry(table, func(e entry) {
		if !changesOnHops(e.name) {
			n++
		}
	})
	return n
}

// clientDecodes reports whether the client library can decode a header. A header
// named UnreadableHeaders counts as unreadable, so that it is nested.
func clientDecodes(name []byte, kind byte, content []byte) bool {
	return string(name) != UnreadableHeaders && checkValue(kind, content, maxDepth, maxElements) == decodable
}

// split splits a table into headers to keep, to put into UnreadableHeaders and to
// put into UnreadableCC. A rest of the table that cannot be split into entries is
// appended to unreadable. Other control headers that are unreadable are dropped, with
// UnreadableDeath in place of x-death, or of what may be one.
func split(table []byte, tooMany bool) (kept, unreadable, cc []byte) {
	var others, copies []entry
	count, death := 0, false
	rest := eachEntry(table, func(e entry) {
		switch {
		case clientDecodes(e.name, e.kind, e.content) && count < maxElements-2 && (!tooMany || changesOnHops(e.name)):
			kept = append(kept, e.encoded...)
			count++
		case isCC(e.name):
			copies = append(copies, e)
		case !isControl(e.name):
			others = append(others, e)
		default:
			death = death || string(e.name) == "x-death"
		}
	})
	if death || len(rest) > 0 && withoutControl(rest) == nil {
		kept = append(append(kept, byte(len(UnreadableDeath))), UnreadableDeath+"V"...)
	}
	return kept, append(sorted(others), withoutControl(rest)...), sorted(copies)
}

// sorted returns a table of the headers, sorted by name.
func sorted(headers []entry) (table []byte) {
	slices.SortStableFunc(headers, func(a, b entry) int { return bytes.Compare(a.name, b.name) })
	for _, e := range headers {
		table = append(table, e.encoded...)
	}
	return table
}

func isCC(name []byte) bool { return string(name) == "CC" || string(name) == "BCC" }

// isControl reports whether a header controls RabbitMQ or Watership. RabbitMQ routes
// by the names in a CC array even if the client library cannot decode another of
// its elements: republished with Watership's permissions, the message would reach
// any queue.
func isControl(name []byte) bool {
	return isCC(name) || bytes.HasPrefix(name, []byte("watership-")) ||
		bytes.HasPrefix(name, []byte("x-")) && header.SetByBroker(string(name))
}

// withoutControl returns the rest of a table that cannot be split into entries, nil
// if it may contain the name of a control header.
func withoutControl(rest []byte) []byte {
	for at := range rest {
		if next := valueOffset(rest, at); next < len(rest) && isControl(rest[at+1:next]) {
			return nil
		}
	}
	return rest
}

// changesOnHops reports whether brokers or Watership add, change or remove a header,
// so that it must stay readable.
func changesOnHops(name []byte) bool {
	switch string(name) {
	case "CC", "BCC", UnreadableCC, "timestamp_in_ms":
		return true
	}
	return bytes.HasPrefix(name, []byte("x-")) || bytes.HasPrefix(name, []byte("watership-"))
}

func appendByteArray(table []byte, name string, value []byte) []byte {
	table = append(table, byte(len(name)))
	table = append(table, name...)
	table = binary.BigEndian.AppendUint32(append(table, 'x'), uint32(len(value)))
	return append(table, value...)
}
