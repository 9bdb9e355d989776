package schemas

import (
	"encoding/binary"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// headerWrapped marks a message whose body begins with its properties and headers,
// which left no room for Watership's. Its value is the version of the format.
const (
	headerWrapped  = "watership-wrapped"
	wrappedVersion = 1
)

// wrapInBody moves an envelope into a body: the length of the JSON as four bytes
// (big-endian), the envelope as JSON of the document's `amqp` object, and the
// message's own body. The message has no headers but Watership's.
func wrapInBody(e Envelope, s State) amqp.Publishing {
	const prefix = 4
	o := jsonappend.Begin(make([]byte, prefix, frameMax+len(e.Body)))
	appendExact(&o, e)
	body := o.End()
	binary.BigEndian.PutUint32(body, uint32(len(body)-prefix))
	headers := typedTable{headerWrapped: int64(wrappedVersion)}
	s.write(headers)
	return amqp.Publishing{
		Headers: amqp.Table(headers), DeliveryMode: amqp.Persistent, Body: append(body, e.Body...),
	}
}

// unwrapBody is the inverse of wrapInBody. It returns false for a body of another
// form, from a message to which a header of Watership was copied.
func unwrapBody(arrived Envelope) (Envelope, bool) {
	if typedTable(arrived.Headers).int(headerWrapped) != wrappedVersion || len(arrived.Body) < 4 {
		return Envelope{}, false
	}
	size, rest := binary.BigEndian.Uint32(arrived.Body), arrived.Body[4:]
	if uint64(size) > uint64(len(rest)) {
		return Envelope{}, false
	}
	r := jsonscan.New(rest[:size])
	e := readExact(r)
	if len(rest) > int(size) {
		e.Body = rest[size:]
	}
	return e, r.End() == nil
}
