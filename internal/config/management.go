package config

import "github.com/watershipmq/watership/internal/rabbit"

// managementURL returns the default URL of RabbitMQ's HTTP API, on each node of the broker.
func managementURL(amqp URL) URL {
	return NewURL(rabbit.ManagementURL(amqp.full), rabbit.ManagementNodes(amqp.full, amqp.Nodes())...)
}
