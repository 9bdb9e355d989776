package adoptions

import (
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// Names of headers of NServiceBus (https://docs.particular.net/nservicebus/messaging/headers).
const (
	serviceBusException = "NServiceBus.ExceptionInfo."
	serviceBusQueue     = "NServiceBus.FailedQ"
	serviceBusTime      = "NServiceBus.TimeOfFailure"
	serviceBusRetries   = "NServiceBus.Retries" // delayed ones, and others that begin so

	// serviceBusLayout is the layout of times, whose last colon stands before microseconds.
	serviceBusLayout = "2006-01-02 15:04:05.000000 Z"
)

func readNServiceBus(arrived schemas.Envelope, _ string) (Failure, error) {
	h := headers(arrived.Headers)
	queue := h.text(serviceBusQueue)
	if queue == "" {
		return Failure{}, missing(h, "NServiceBus", serviceBusQueue)
	}
	queue, _, _ = strings.Cut(queue, "@") // of another transport: the machine
	f := Failure{
		Message: withoutHeaders(arrived, addedByNServiceBus),
		Error:   h.text(serviceBusException + "Message"), ErrorType: h.text(serviceBusException + "ExceptionType"), Stack: h.text(serviceBusException + "StackTrace"),
		Attempts: h.number("NServiceBus.FLRetries") + h.number(serviceBusRetries) + 1,
	}
	f.to(queue)
	if at := h.text(serviceBusTime); at != "" {
		if i := strings.LastIndexByte(at, ':'); i >= 0 {
			at = at[:i] + "." + at[i+1:]
		}
		f.FailedAt = timeOf(at, serviceBusLayout)
	}
	return f, nil
}

// addedByNServiceBus is true for the machine that failed, too, which NServiceBus names in headers of
// its failures and audits alone.
func addedByNServiceBus(header string) bool {
	switch header {
	case serviceBusQueue, serviceBusTime, "NServiceBus.FLRetries", "NServiceBus.Transport.RabbitMQ.DelayInSeconds",
		"NServiceBus.ProcessingMachine", "NServiceBus.ProcessingEndpoint", "$.diagnostics.hostid", "$.diagnostics.hostdisplayname":
		return true
	}
	return strings.HasPrefix(header, serviceBusException) || strings.HasPrefix(header, serviceBusRetries) || strings.HasPrefix(header, "ServiceControl.")
}
