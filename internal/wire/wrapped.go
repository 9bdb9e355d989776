package wire

import (
	"encoding/binary"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// headerWrapped marks a message whose body begins with its properties and headers,
// which left no room for Watership's. Its value is the version of the format.
const (
	headerWrapped  = "watership-wrapped"
	wrappedVersion = 1
)

// wrapInBody moves an envelope into a body: the envelope as Encode writes it, which ends with
// the message's own body. The message has no headers but Watership's.
func wrapInBody(e schemas.Envelope, s schemas.State) amqp.Publishing {
	headers := header.Table{headerWrapped: int64(wrappedVersion)}
	headers.SetFlag(header.Redacted, e.Redacted)
	writeState(s, headers)
	return amqp.Publishing{Headers: amqp.Table(headers), DeliveryMode: amqp.Persistent, Body: Encode(e)}
}

// Encode returns an envelope as bytes from which Decode reads it, every type and the bytes of the
// body unchanged: the length of the JSON as four bytes (big-endian), the envelope as JSON of the
// document's `amqp` object, and the body.
func Encode(e schemas.Envelope) []byte {
	const prefix = 4
	encoded := e.AppendExact(make([]byte, prefix, 4<<10+len(e.Body)))
	binary.BigEndian.PutUint32(encoded, uint32(len(encoded)-prefix))
	return append(encoded, e.Body...)
}

// unwrapBody is the inverse of wrapInBody. It returns false for a body of another
// form, from a message to which a header of Watership was copied.
func unwrapBody(arrived schemas.Envelope) (schemas.Envelope, bool) {
	if header.Table(arrived.Headers).Int(headerWrapped) != wrappedVersion {
		return schemas.Envelope{}, false
	}
	return Decode(arrived.Body)
}

// Decode is the inverse of Encode. It returns false for bytes of another form. The envelope shares
// its body with them.
func Decode(encoded []byte) (schemas.Envelope, bool) {
	if len(encoded) < 4 {
		return schemas.Envelope{}, false
	}
	size, rest := binary.BigEndian.Uint32(encoded), encoded[4:]
	if uint64(size) > uint64(len(rest)) {
		return schemas.Envelope{}, false
	}
	r := jsonscan.New(rest[:size])
	var e schemas.Envelope
	e.ReadExact(r)
	if len(rest) > int(size) {
		e.Body = rest[size:]
	}
	return e, r.End() == nil
}
