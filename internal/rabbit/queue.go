package rabbit

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// QueueState is the result of a passive queue declaration.
type QueueState struct {
	Messages  int // ready to be delivered
	Consumers int
	Locked    bool // exclusive to another connection; the counts are unknown
}

// QueueState declares a queue passively; found reports whether it exists.
func (c *Connection) QueueState(ctx context.Context, name string) (state QueueState, found bool, err error) {
	if CheckName(name) != nil {
		return QueueState{}, false, nil
	}
	declared := make(chan amqp.Queue, 1) // not a variable: a declaration may outlive ctx
	err = c.Do(ctx, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err == nil {
			select {
			case declared <- q:
			default:
			}
		}
		return err
	})
	broker, refused := reply(err)
	switch {
	case refused && broker.Code == amqp.NotFound:
		return QueueState{}, false, nil
	case refused && broker.Code == amqp.ResourceLocked:
		return QueueState{Locked: true}, true, nil
	case err != nil:
		return QueueState{}, false, fmt.Errorf("looking at queue %q: %w", name, err)
	}
	q := <-declared
	return QueueState{Messages: q.Messages, Consumers: q.Consumers}, true, nil
}
