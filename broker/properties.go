package broker

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// properties are the encoded properties of a message (§4.2.6.1).
type properties struct {
	values [propertyCount][]byte // nil: not set
}

// The positions of the properties, in the order of their flags from the highest bit.
const (
	propContentType = iota
	propContentEncoding
	propHeaders
	propDeliveryMode
	propPriority
	propCorrelationID
	propReplyTo
	propExpiration
	propMessageID
	propTimestamp
	propType
	propUserID
	propAppID
	propClusterID
	propertyCount
)

// parseProperties decodes flags and values. The result shares the memory of b.
func parseProperties(b []byte) (p properties, err *exception) {
	d := decoder{rest: b}
	flags := d.short()
	for place := range propertyCount {
		if flags&(1<<(15-place)) != 0 {
			p.values[place] = d.property(place)
		}
	}
	if d.bad || len(d.rest) > 0 || flags&3 != 0 {
		return properties{}, newException(syntaxError, "properties cannot be read")
	}
	return p, p.headers().validate()
}

// property reads the encoded value of a property.
func (d *decoder) property(place int) []byte {
	before := d.rest
	switch place {
	case propHeaders:
		d.longstr()
	case propDeliveryMode, propPriority:
		d.octet()
	case propTimestamp:
		d.longlong()
	default:
		d.take(int(d.octet()))
	}
	return before[: len(before)-len(d.rest) : len(before)-len(d.rest)]
}

// encode returns flags and values, as parseProperties reads them.
func (p properties) encode() []byte {
	var flags uint16
	size := 2
	for place, value := range p.values {
		if value != nil {
			flags |= 1 << (15 - place)
			size += len(value)
		}
	}
	b := binary.BigEndian.AppendUint16(make([]byte, 0, size), flags)
	for _, value := range p.values {
		b = append(b, value...)
	}
	return b
}

func (p properties) headers() table {
	if p.values[propHeaders] == nil {
		return nil
	}
	return table(p.values[propHeaders][4:])
}

func (p *properties) setHeaders(t table) {
	p.values[propHeaders] = appendLongstr(nil, string(t))
}

func (p properties) text(place int) (text string, there bool) {
	if p.values[place] == nil {
		return "", false
	}
	return string(p.values[place][1:]), true
}

// maxExpiry is the longest TTL that RabbitMQ accepts, in milliseconds: ten years.
const maxExpiry = 10 * 365 * 24 * 3600 * 1000

// expiration returns the TTL of the message in milliseconds, -1 for none.
func (p properties) expiration() (int64, *exception) {
	text, there := p.text(propExpiration)
	if !there {
		return -1, nil
	}
	digits := strings.TrimRightFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	ms, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil:
		return 0, newException(preconditionFailed, "invalid expiration '%s': no_integer", text)
	case digits != text:
		return 0, newException(preconditionFailed, "invalid expiration '%s': {leftover_string,%q}", text, text[len(digits):])
	case ms < 0:
		return 0, newException(preconditionFailed, "invalid expiration '%s': {value_negative,%d}", text, ms)
	case ms > maxExpiry:
		return 0, newException(preconditionFailed, "invalid expiration '%s': {value_too_large,%d}", text, ms)
	}
	return ms, nil
}

// headerRoutes returns the routing keys in the headers CC and BCC
// (https://www.rabbitmq.com/docs/sender-selected).
func (p properties) headerRoutes() (cc, bcc []string, err *exception) {
	headers := p.headers()
	if cc, err = routesOf(headers, "CC"); err == nil {
		bcc, err = routesOf(headers, "BCC")
	}
	return cc, bcc, err
}

func routesOf(headers table, name string) ([]string, *exception) {
	f, there := headers.lookup(name)
	if !there {
		return nil, nil
	}
	if f.kind != 'A' {
		return nil, newException(preconditionFailed, "invalid message: {unacceptable_type_in_header,%q,%s}", name, f.typeName())
	}
	var keys []string
	for item := range f.items() {
		if key, ok := item.text(); ok {
			keys = append(keys, key)
		}
	}
	return slices.Clip(keys), nil
}
