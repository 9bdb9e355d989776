package adoptions

import (
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
	wolverineDestination = "original-destination" // rabbitmq://queue/NAME, since 6.21
)

// readWolverine reads a failure of Wolverine. With RabbitMQ's own dead-lettering, which is the
// default, only the broker has recorded it. Before 6.21 the headers of an exception come without a queue.
func readWolverine(arrived schemas.Envelope, errorQueue string) (Failure, error) {
	h := headers(arrived.Headers)
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
		Message: withoutHeaders(arrived, addedByWolverine),
		Error:   h.text(wolverineMessage), ErrorType: h.text(wolverineType), Stack: h.text(wolverineStack),
		Attempts: h.number(wolverineAttempts), FailedAt: h.time(wolverineTime),
	}
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
	switch header {
	case wolverineTime, wolverineAttempts, wolverineDestination, "original-partition", "original-offset":
		return true
	}
	return strings.HasPrefix(header, "exception-")
}
