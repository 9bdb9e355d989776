package simulation

import (
	"context"
	"fmt"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// Profile has the kind of RabbitMQ of a run, and how its users use it.
type Profile struct {
	Release    broker.Release
	QueueType  string // of Watership's queues and of the routes
	Policies   bool   // for all exchanges and queues, as operators have them
	Priorities bool   // of messages without an order
}

// String describes the profile.
func (p Profile) String() string {
	return fmt.Sprintf("RabbitMQ %s, %s queues, policies: %t, priorities: %t", p.Release.Version(), p.QueueType, p.Policies, p.Priorities)
}

// newProfile draws a profile from a seed.
func newProfile(seed uint64) Profile {
	random := randomness(seed, "profile")
	p := Profile{
		Release:   []broker.Release{broker.RabbitMQ43, broker.RabbitMQ40}[random.IntN(2)],
		QueueType: []string{"quorum", "quorum", "classic"}[random.IntN(3)],
		Policies:  random.IntN(2) == 0, Priorities: random.IntN(2) == 0,
	}
	if random.IntN(4) == 0 {
		p.Release = broker.RabbitMQ310
	}
	return p
}

const (
	brokerURL     = "amqp://guest:guest@broker/"
	managementURL = "http://guest:guest@broker:15672"

	unrouted = "unrouted" // exchange and queue of messages that no other queue gets
)

// declareUsers declares the exchange of the messages, and policies for all exchanges and queues but
// RabbitMQ's.
func (w *world) declareUsers(ctx context.Context) error {
	conn, err := amqp.DialConfig(brokerURL, amqp.Config{Dial: func(_, address string) (net.Conn, error) { return w.network.dial("users", address) }})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil || !w.profile.Policies {
		return err
	}
	if err := channel.ExchangeDeclare(unrouted, "fanout", true, false, false, false, nil); err != nil {
		return err
	}
	if _, err := channel.QueueDeclare(unrouted, true, false, false, false, nil); err != nil {
		return err
	}
	if err := channel.QueueBind(unrouted, "", unrouted, false, nil); err != nil {
		return err
	}
	return users{w}.savePolicies(ctx, policies(3_600_000, 20)...)
}
