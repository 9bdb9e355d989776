package adoptions

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// readMassTransit reads a failure of MassTransit
// (https://masstransit.io/documentation/concepts/exceptions#error-pipe). MT-Reason is
// dead-letter if no consumer of the queue takes messages of this type.
func readMassTransit(arrived schemas.Envelope, errorQueue string) (Failure, error) {
	h := headers(arrived.Headers)
	reason := h.text("MT-Reason")
	if reason == "" && h.text("MT-Fault-ExceptionType") == "" {
		return Failure{}, missing(h, "MassTransit", "MT-Reason", "MT-Fault-ExceptionType")
	}
	f := Failure{
		Message: withoutHeaders(arrived, func(name string) bool {
			return name == "MT-Reason" || name == "MT-Redelivery-Count" || strings.HasPrefix(name, "MT-Fault-") || strings.HasPrefix(name, "MT-Host-")
		}),
		Error: h.text("MT-Fault-Message"), ErrorType: h.text("MT-Fault-ExceptionType"), Stack: h.text("MT-Fault-StackTrace"),
		Attempts: h.number("MT-Fault-RetryCount") + 1, FailedAt: h.time("MT-Fault-Timestamp", time.RFC3339Nano),
	}
	f.to(cmp.Or(queueOfAddress(h.text("MT-Fault-InputAddress")), queueBefore(errorQueue, "_error", "_skipped")))
	if f.ErrorType == "" {
		f.ErrorType, f.Attempts = reason, 1
	}
	if f.Error == "" {
		f.Error = fmt.Sprintf("no consumer of queue %q takes messages of this type", f.Queue)
	}
	return f, nil
}

// queueOfAddress returns the queue of an address such as rabbitmq://host/vhost/queue?durable=true,
// "" for other addresses.
func queueOfAddress(address string) string {
	at, err := url.Parse(address)
	if err != nil || at.Scheme == "" || strings.Trim(at.Path, "/") == "" {
		return ""
	}
	return path.Base(at.Path)
}
