package schemas

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
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
	Stream  Stream
	Since   time.Time
}

// WrapKept returns the message of an event whose document in a stream lacks the body, for the queue
// of unstorable messages.
func (e Event) WrapKept(stream Stream, since time.Time) amqp.Publishing {
	p := DefaultFrameMax.Wrap(e.Envelope, e.State)
	typedTable(p.Headers).setKept(stream, since)
	return p
}

func (h typedTable) setKept(stream Stream, since time.Time) {
	h.setText(headerKeptFor, string(stream))
	h.setTime(headerKeptSince, since)
}

// KeptFor returns the document for which the queue of unstorable messages holds a
// message. It returns false for a message without a document: then only the queue has
// the message.
func (e Envelope) KeptFor() (Kept, bool) {
	h := typedTable(e.Headers)
	k := Kept{EventID: h.text(headerEventID), Stream: Stream(h.text(headerKeptFor)), Since: h.time(headerKeptSince)}
	return k, k.Stream.IsValid() && checkID(k.EventID) == nil && !k.Since.IsZero()
}
