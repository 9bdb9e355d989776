package schemas

import "github.com/watershipmq/watership/schemas/internal/errorgroup"

const errorGroupLimit = 256 // bytes

// ErrorGroup replaces the ids and numbers in an error message by "#", so that
// failures of one kind have one text. Every word with a digit is replaced; a number
// with its fraction, or an IP address, is one word. Names of queues and exchanges
// stay, and so does a status, as in `status code 503`.
func ErrorGroup(message string, names ...string) string {
	return shorten(errorgroup.Fold(message, errorGroupLimit, names), errorGroupLimit)
}

func (e Event) errorGroup() string {
	return ErrorGroup(e.Failure.Message, e.Queue, e.Envelope.Exchange)
}
