package config

import "github.com/watershipmq/watership/internal/rabbit"

// managementURL returns the default URL of RabbitMQ's HTTP API.
func managementURL(amqp URL) URL { return URL{rabbit.ManagementURL(amqp.full)} }
