package schemas

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// PublisherHeaders returns a copy of a header table with only the headers that a
// publisher may set. It omits the headers of Watership and the headers that
// RabbitMQ itself writes, which have no meaning in another message.
func PublisherHeaders(table amqp.Table) amqp.Table {
	kept := make(amqp.Table, len(table))
	for name, value := range table {
		if !strings.HasPrefix(name, headerPrefix) && !SetByBroker(name) {
			kept[name] = value
		}
	}
	return kept
}
