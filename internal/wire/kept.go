package wire

import (
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// headerKeptFor has the data stream of the document, whose retention applies to the
// message as well; headerKeptSince has the time from which it counts.
const (
	headerKeptFor   = "watership-kept-for"
	headerKeptSince = "watership-kept-since"
)

// Kept names the document for which the queue of unstorable messages holds a
// message: the document lacks the body.
type Kept struct {
	EventID string // the document's id
	Stream  schemas.Stream
	Since   time.Time
}

// WrapKept returns the message of an event whose document in a stream lacks the body, for the queue
// of unstorable messages.
func WrapKept(e schemas.Event, stream schemas.Stream, since time.Time) amqp.Publishing {
	if len(e.Sealed) > 0 {
		e.Envelope = schemas.Envelope{Exchange: e.Envelope.Exchange, RoutingKey: e.Envelope.RoutingKey, Body: e.Sealed, Redacted: true}
	}
	p := DefaultFrameMax.Wrap(e.Envelope, e.State)
	if len(e.Sealed) > 0 {
		p.Headers[header.Redacted] = int64(sealedInBody)
	}
	setKept(header.Table(p.Headers), stream, since)
	return p
}

func setKept(h header.Table, stream schemas.Stream, since time.Time) {
	h.SetText(headerKeptFor, string(stream))
	h.SetTime(headerKeptSince, since)
}

// KeptFor returns the document for which the queue of unstorable messages holds a
// message. It returns false for a message without a document: then only the queue has
// the message.
func KeptFor(e schemas.Envelope) (Kept, bool) {
	h := header.Table(e.Headers)
	k := Kept{EventID: h.Text(headerEventID), Stream: schemas.Stream(h.Text(headerKeptFor)), Since: h.Time(headerKeptSince)}
	return k, k.Stream.IsValid() && isID(k.EventID) && !k.Since.IsZero()
}

func isID(id string) bool { return id != "" && len(id) <= longestID && utf8.ValidString(id) }

// sealedInBody is the value of header.Redacted of a message whose body is the sealed original. Of a message
// that is redacted it is 1.
const sealedInBody = 2

// HasSealedBody reports whether the body of a message with these headers, in the queue of unstorable messages, is
// a sealed original.
func HasSealedBody(headers amqp.Table) bool {
	return header.Table(headers).Int(header.Redacted) == sealedInBody
}
