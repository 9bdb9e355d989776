// Package header reads and writes the headers of a message with their types, and tells those of Watership and of the
// broker from those of publishers. Package schemas needs it as well, so it knows no message.
package header

import (
	"maps"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Version is the version of Watership's headers. Watership keeps a message with a
// newer version unchanged.
const Version = 1

// prefix begins the names of Watership's headers. None begins with "x-", which RabbitMQ reserves.
const prefix = "watership-"

// Headers with a meaning in RabbitMQ
// (https://www.rabbitmq.com/docs/sender-selected,
// https://www.rabbitmq.com/docs/message-interceptors).
const (
	CC         = "CC"
	BCC        = "BCC"
	BrokerTime = "timestamp_in_ms"
)

// IsWatership reports whether a header belongs to Watership.
func IsWatership(name string) bool { return strings.HasPrefix(name, prefix) }

// IsState reports whether Watership or RabbitMQ writes a header, and no publisher.
func IsState(name string) bool { return IsWatership(name) || SetByBroker(name) }

// SetByBroker reports whether RabbitMQ itself writes a header
// (https://www.rabbitmq.com/docs/dlx#effects). Brokers before 4.0 trust an x-death
// that a client publishes, so Watership never publishes one.
func SetByBroker(name string) bool {
	if name == "x-death" || CountsDeliveries(name) {
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// CountsDeliveries reports whether RabbitMQ counts deliveries in a header.
func CountsDeliveries(name string) bool {
	return name == "x-delivery-count" || name == "x-acquired-count"
}

// Without copies a header table without the headers selected by omit, with room for
// more of them.
func Without(table amqp.Table, omit func(name string) bool, room int) amqp.Table {
	kept := make(amqp.Table, len(table)+room)
	for name, value := range table {
		if !omit(name) {
			kept[name] = value
		}
	}
	return kept
}

// Redacted marks a message whose values were replaced as it was recorded.
const Redacted = prefix + "redacted"

// notToBeSent is the value of Redacted in a redacted message on its way to a consumer. AMQP has no
// such type, so that no message that arrives has it, and none that has it can be published.
type notToBeSent struct{}

// Withhold returns headers with the mark of a redacted message on its way to a consumer.
func Withhold(headers amqp.Table) amqp.Table {
	marked := maps.Clone(headers)
	if marked == nil {
		marked = amqp.Table{}
	}
	marked[Redacted] = notToBeSent{}
	return marked
}

// Withheld reports whether headers have the mark of a redacted message on its way to a consumer,
// which nobody may publish.
func Withheld(headers amqp.Table) bool {
	_, marked := headers[Redacted].(notToBeSent)
	return marked
}
