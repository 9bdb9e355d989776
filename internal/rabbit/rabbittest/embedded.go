package rabbittest

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// Embedded starts an embedded broker with management API, and stops it when the
// test ends.
func Embedded(t testing.TB) Broker {
	t.Helper()
	inside := broker.Start(t, broker.Config{})
	return Broker{
		Version: broker.RabbitMQ43.Version(), Own: true, Address: Address{inside.URL() + "/"},
		ManagementURL: inside.StartManagement(t), observers: &observers{all: map[observer]*amqp.Channel{}},
	}
}
