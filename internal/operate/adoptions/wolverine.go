package adoptions

import (
	"cmp"
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// Headers of Wolverine's envelopes, and those that its dead letters have
// (https://wolverinefx.net/guide/messaging/transports/rabbitmq/deadletterqueues.html).
const (
	wolverineType        = "exception-type"
	wolverineMessage     = "exception-message"
	wolverineStack       = "exception-stack"
	wolverineTime        = "failed-at"
	wolverineAttempts    = "attempts"
	wolverineDestination = "destination" // rabbitmq://queue/NAME
)

// readWolverine reads a failure of Wolverine. With RabbitMQ's own dead-lettering, only the
// broker has recorded it.
func readWolverine(arrived schemas.Envelope, errorQueue string) (Failure, error) {
	h := header(arrived.Headers)
	dead, err := readDeadLetter(arrived, errorQueue)
	if h.text(wolverineType) == "" {
		if err != nil {
			return Failure{}, missing(h, "Wolverine", wolverineType, "x-death")
		}
		dead.Attempts = max(dead.Attempts, h.number(wolverineAttempts))
		dead.Message = withoutHeaders(dead.Message, addedByWolverine)
		return dead, nil
	}
	f := Failure{
		Message:   withoutHeaders(arrived, addedByWolverine),
		ErrorType: h.text(wolverineType), Stack: h.text(wolverineStack),
		Attempts: h.number(wolverineAttempts), FailedAt: h.time(wolverineTime),
	}
	f.Error = cmp.Or(h.text(wolverineMessage), f.ErrorType)
	if err == nil {
		f.Queue, f.Message = dead.Queue, withoutHeaders(dead.Message, addedByWolverine)
		return f, nil
	}
	f.to(queueOfAddress(h.text(wolverineDestination)))
	return f, nil
}

// addedByWolverine is true for the attempts as well: Wolverine counts on from the number that a
// message arrives with.
func addedByWolverine(header string) bool {
	return strings.HasPrefix(header, "exception-") || header == wolverineTime || header == wolverineAttempts
}
