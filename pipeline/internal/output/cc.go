package output

import (
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// withoutCopiedCC removes the routing keys from CC and BCC that were copied from the
// message being handled: RabbitMQ would route the outgoing message, by the rights of
// Watership's login, to queues that the publisher of the other message chose
// (https://www.rabbitmq.com/docs/sender-selected).
func withoutCopiedCC(headers amqp.Table, parent schemas.Envelope) {
	parentKeys := append(routingKeys(parent.Headers["CC"]), routingKeys(parent.Headers["BCC"])...)
	if len(parentKeys) == 0 {
		return
	}
	for _, header := range []string{"CC", "BCC"} {
		own := slices.DeleteFunc(routingKeys(headers[header]), func(name any) bool { return slices.Contains(parentKeys, name) })
		delete(headers, header)
		if len(own) > 0 {
			headers[header] = own
		}
	}
}

// routingKeys returns the routing keys of a CC or BCC header; RabbitMQ ignores other elements.
func routingKeys(header any) []any {
	all, _ := header.([]any)
	return slices.DeleteFunc(slices.Clone(all), func(element any) bool {
		_, is := element.(string)
		return !is
	})
}
