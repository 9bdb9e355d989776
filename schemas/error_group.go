package schemas

import "github.com/watershipmq/watership/schemas/internal/errorgroup"

const errorGroupLimit = 256 // bytes

// Group replaces the ids and numbers in the message of a failure by "#", so that failures
// of one kind have one text. Every word with a digit is replaced; a number with its
// fraction, or an IP address, is one word. Names of queues and exchanges stay, and so does
// a status, as in `status code 503`.
func (f Failure) Group(names ...string) string {
	return shorten(errorgroup.Fold(f.Message, errorGroupLimit, names), errorGroupLimit)
}

// ErrorGroup returns the group of the event's failure. A `triaged` event has the text of its
// group as the message.
func (e Event) ErrorGroup() string {
	if e.Action == Triaged {
		return e.Failure.Message
	}
	return e.Failure.Group(e.Queue, e.Envelope.Exchange)
}
