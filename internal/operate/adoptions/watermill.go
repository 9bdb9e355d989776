package adoptions

import (
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// Metadata of Watermill's middleware PoisonQueue, which its AMQP publisher writes as headers
// (https://watermill.io/docs/middlewares/#poison).
const (
	watermillReason  = "reason_poisoned"
	watermillTopic   = "topic_poisoned"
	watermillHandler = "handler_poisoned"
	watermillSuffix  = "_poisoned"
)

// readWatermill reads a failure of Watermill. The topic is the queue with Watermill's
// configurations of durable and transient queues; with the configurations of publish and subscribe it is
// the exchange, and the queue must be named.
func readWatermill(arrived schemas.Envelope, _ string) (Failure, error) {
	h := headers(arrived.Headers)
	text := h.text(watermillReason)
	if text == "" {
		return Failure{}, missing(h, "Watermill", watermillReason)
	}
	f := Failure{
		Message: withoutHeaders(arrived, func(name string) bool {
			return strings.HasSuffix(name, watermillSuffix)
		}),
		Error: text, ErrorType: h.text(watermillHandler),
	}
	f.to(h.text(watermillTopic))
	return f, nil
}
