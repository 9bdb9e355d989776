// Package broker is an AMQP 0-9-1 broker inside the process, for tests, development and
// trying out. It behaves as RabbitMQ 4.3 does, or as 4.0 or 3.10 with Config.Release, in everything that an
// ordinary client uses, and refuses the rest with RabbitMQ's own error. It holds messages in memory only. This
// is a whole test:
//
//	package orders
//
//	import (
//		"testing"
//
//		amqp "github.com/rabbitmq/amqp091-go"
//		"github.com/watershipmq/watership/broker"
//	)
//
//	func TestConnect(t *testing.T) {
//		b := broker.Start(t, broker.Config{})
//		conn, err := amqp.Dial(b.URL())
//		if err != nil {
//			t.Fatal(err)
//		}
//		defer conn.Close()
//	}
//
// Inject makes the broker misbehave: it nacks, returns or delays publishes, and closes
// channels and connections at any method.
//
// Do not use it in production, nor for a test that needs streams, permissions or
// messages that survive a restart: use RabbitMQ.
package broker
