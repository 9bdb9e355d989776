package rabbit

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// UnreadableHeaders is the name of the header under which a delivery holds those
// of its headers that the client library cannot read: nested deeper than 32, more
// than 8,192 in one table, of a type that it does not know. Without this every
// connection that gets such a message would end, each time it comes again. The
// value is a byte array: the headers as they are in a table on the wire, each to
// the last byte, in the order of their names, since brokers change that order.
//
// What is published with this header goes out with those headers instead, on
// every connection; so whoever passes a message on passes it on as it was. A
// message that arrives with a header of this name is treated alike: the name never
// means anything else.
//
// Headers that RabbitMQ or Watership obeys are no part of it: see obeyed.
//
// The name is not one of ours, nor one of RabbitMQ's: to everybody but this
// package it is a header like others, part of what a message is known by.
const UnreadableHeaders = "unreadable-headers"

// UnreadableCC is the name of the header under which a delivery holds a CC or BCC
// that the client library cannot read, in the same form. It is there for the record:
// it is published as it is, and never becomes CC or BCC again.
const UnreadableCC = "unreadable-cc"

// setAside is a frame that the client can read in place of one that it cannot; nil
// for one that it can.
func setAside(frame []byte) []byte {
	start, end, ok := headersOf(frame)
	if !ok {
		return nil
	}
	headers := frame[start:end]
	fits, crowded := survey(headers)
	if fits {
		return nil
	}
	table, aside, cc := part(headers, crowded)
	if len(aside) > 0 {
		table = appendBytes(table, UnreadableHeaders, aside)
	}
	if len(cc) > 0 {
		table = appendBytes(table, UnreadableCC, cc)
	}
	return withHeaders(frame, start, end, table)
}

// crowd is how many headers there may be beside those that change on the way. It
// leaves the client room for the latter: which headers are set aside must not
// change from hop to hop.
const crowd = clientElements - 192

// survey says whether the client reads all headers as they are, and if not,
// whether there are too many of them. Every message that comes passes here.
func survey(table []byte) (fits, crowded bool) {
	all, at := 0, 0
	fits = true
	for at < len(table) {
		kind := kindAt(table, at)
		content, end := valueAt(table, kind)
		if end < 0 {
			fits = false
			break
		}
		fits = fits && clientReads(table[at+1:kind], table[kind], table[content:end])
		all++
		at = end
	}
	if all > crowd {
		crowded = all > clientElements || lasting(table) > crowd
	}
	return fits && !crowded, crowded
}

// lasting counts the headers that are the same after every hop.
func lasting(table []byte) (n int) {
	eachEntry(table, func(e entry) {
		if !changes(e.name) {
			n++
		}
	})
	return n
}

// clientReads says whether the client reads a header, and as what it is.
func clientReads(name []byte, kind byte, content []byte) bool {
	return string(name) != UnreadableHeaders && judge(kind, content, clientDepth, clientElements) == readable
}

// part divides a table. What cannot be taken apart stays the end of what is aside.
// An unreadable header that is obeyed is in no part but the last.
func part(table []byte, crowded bool) (kept, aside, cc []byte) {
	var others, copies []entry
	count := 0
	for len(table) > 0 {
		e, rest, ok := firstEntry(table)
		if !ok {
			break
		}
		table = rest
		if clientReads(e.name, e.kind, e.content) && count < clientElements-1 && (!crowded || changes(e.name)) {
			kept = append(kept, e.whole...)
			count++
		} else if carbonCopy(e.name) {
			copies = append(copies, e)
		} else if !obeyed(e.name) {
			others = append(others, e)
		}
	}
	return kept, append(inOrder(others), unsplit(table)...), inOrder(copies)
}

// inOrder is a table of headers in the order of their names.
func inOrder(headers []entry) (table []byte) {
	slices.SortStableFunc(headers, func(a, b entry) int { return bytes.Compare(a.name, b.name) })
	for _, e := range headers {
		table = append(table, e.whole...)
	}
	return table
}

func carbonCopy(name []byte) bool { return string(name) == "CC" || string(name) == "BCC" }

// obeyed says whether a header tells RabbitMQ or Watership what to do with a message.
// RabbitMQ follows the names in a CC array of which the client cannot read another
// element: published again with our rights, the message would reach any queue.
func obeyed(name []byte) bool {
	return carbonCopy(name) || bytes.HasPrefix(name, []byte("watership-")) ||
		bytes.HasPrefix(name, []byte("x-")) && schemas.SetByBroker(string(name))
}

// unsplit is the end of a table that cannot be taken apart, nil where the name of a
// header that is obeyed may be in it.
func unsplit(end []byte) []byte {
	for at := range end {
		if next := kindAt(end, at); next < len(end) && obeyed(end[at+1:next]) {
			return nil
		}
	}
	return end
}

// changes says whether a header is one that brokers or we add, change or remove:
// they are the ones that have to be seen.
func changes(name []byte) bool {
	switch string(name) {
	case "CC", "BCC", UnreadableCC, "timestamp_in_ms":
		return true
	}
	return bytes.HasPrefix(name, []byte("x-")) || bytes.HasPrefix(name, []byte("watership-"))
}

func appendBytes(table []byte, name string, value []byte) []byte {
	table = append(table, byte(len(name)))
	table = append(table, name...)
	table = binary.BigEndian.AppendUint32(append(table, 'x'), uint32(len(value)))
	return append(table, value...)
}
