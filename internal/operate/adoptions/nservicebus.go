package adoptions

import (
	"cmp"
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
	h := header(arrived.Headers)
	queue := h.text(serviceBusQueue)
	if queue == "" {
		return Failure{}, missing(h, "NServiceBus", serviceBusQueue)
	}
	queue, _, _ = strings.Cut(queue, "@") // of another transport: the machine
	f := Failure{
		Message: withoutHeaders(arrived, func(name string) bool {
			return strings.HasPrefix(name, serviceBusException) || strings.HasPrefix(name, serviceBusRetries) ||
				strings.HasPrefix(name, "ServiceControl.") ||
				name == serviceBusQueue || name == serviceBusTime || name == "NServiceBus.FLRetries" || name == "NServiceBus.Transport.RabbitMQ.DelayInSeconds"
		}),
		ErrorType: h.text(serviceBusException + "ExceptionType"), Stack: h.text(serviceBusException + "StackTrace"),
		Attempts: h.number("NServiceBus.FLRetries") + h.number(serviceBusRetries) + 1,
	}
	f.to(queue)
	f.Error = cmp.Or(h.text(serviceBusException+"Message"), f.ErrorType, "no message")
	if at := h.text(serviceBusTime); at != "" {
		if i := strings.LastIndexByte(at, ':'); i >= 0 {
			at = at[:i] + "." + at[i+1:]
		}
		f.FailedAt = header{serviceBusTime: at}.time(serviceBusTime, serviceBusLayout)
	}
	return f, nil
}
