package schemas

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// headerKeptFor and headerKeptSince say for how long a message is kept in the queue of
// unstorable messages.
const (
	headerKeptFor   = "watership-kept-for"
	headerKeptSince = "watership-kept-since"
)

// Kept says what a message in the queue of unstorable messages is kept for: a document
// without its body.
type Kept struct {
	EventID string // the document's id
	Stream  Stream
	Since   time.Time
}

// WrapKept is Wrap for the queue of unstorable messages, for the event whose document
// is without its body.
func WrapKept(e Event, since time.Time) amqp.Publishing {
	p := Wrap(e.Envelope, e.State)
	ours(p.Headers).keep(e.Action.Stream(), since)
	return p
}

func (h ours) keep(stream Stream, since time.Time) {
	h.setText(headerKeptFor, string(stream))
	h.setTime(headerKeptSince, since)
}

// KeptFor reads it, and says no where a message is kept for no document: nothing but
// the queue has it.
func KeptFor(arrived Envelope) (Kept, bool) {
	h := ours(arrived.Headers)
	k := Kept{EventID: h.text(headerEventID), Stream: Stream(h.text(headerKeptFor)), Since: h.time(headerKeptSince)}
	known := k.Stream == Traffic || k.Stream == Failures
	return k, known && checkID(k.EventID) == nil && !k.Since.IsZero()
}
