package schemas

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// PublisherHeaders is a copy of a header table with what a publisher may set:
// without what is Watership's and without what RabbitMQ itself writes, which
// mean nothing in a message that they were copied to.
func PublisherHeaders(table amqp.Table) amqp.Table {
	kept := make(amqp.Table, len(table))
	for name, value := range table {
		if !strings.HasPrefix(name, headerPrefix) && !SetByBroker(name) {
			kept[name] = value
		}
	}
	return kept
}
