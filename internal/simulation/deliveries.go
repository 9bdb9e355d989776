package simulation

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var errClosed = errors.New("the channel is closed")

// consumeQueue consumes a queue of another program until ctx ends or the connection fails. prepare declares the queue,
// and handle settles each delivery.
func (l *life) consumeQueue(
	ctx context.Context, queue string, prefetch int, prepare func(*amqp.Channel) error, handle func(*amqp.Channel, amqp.Delivery) error,
) error {
	conn, err := amqp.DialConfig(brokerURL, amqp.Config{Heartbeat: 10 * time.Second, Dial: l.dial})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Qos(prefetch, 0, false)
	}
	if err == nil {
		err = prepare(channel)
	}
	if err != nil {
		return err
	}
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case d, open := <-deliveries:
			if !open {
				return errClosed
			}
			err = handle(channel, d)
		}
	}
	return err
}
