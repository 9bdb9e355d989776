package topology

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
)

const (
	creationWait    = 5 * time.Second // for another process to declare its queues
	creationPoll    = 20 * time.Millisecond
	creationRelease = 3 * time.Second
)

// queues declares queues of Watership while no other process does. RabbitMQ 3 sets the arguments of a
// new quorum queue a moment after the queue exists for other connections. A message that one of them
// publishes to a delay queue in that moment never expires, and blocks the ones behind it for ever.
//
// An exclusive queue is the lock. A process that does not get it in time goes on: the other one has
// declared its queues by then, or waits for the broker.
func (d declarer) queues(c Config, all ...queue) error {
	declare := func() error {
		for _, q := range all {
			if err := d.queue(q); err != nil {
				return err
			}
		}
		return nil
	}
	if c.queueType() == Quorum {
		return d.alone(c, declare)
	}
	return declare()
}

// alone calls f while no other process declares queues.
func (d declarer) alone(c Config, f func() error) error {
	if d.turns != nil {
		select {
		case d.turns <- struct{}{}:
			defer func() { <-d.turns }()
		case <-d.ctx.Done():
			return context.Cause(d.ctx)
		}
	}
	unlock := d.lockCreation(c.Name(".creation"))
	defer unlock()
	return f()
}

// lockCreation declares the exclusive queue, which unlock deletes. An error is left to the
// declarations that follow.
func (d declarer) lockCreation(queue string) (unlock func()) {
	for deadline := time.Now().Add(creationWait); ; {
		err := d.do(func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, false, false, true, false, nil)
			return err
		})
		switch {
		case err == nil:
			return func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), creationRelease)
				defer cancel()
				_ = d.conn.Do(ctx, func(ch *amqp.Channel) error { // else it ends with the connection
					_, err := ch.QueueDelete(queue, false, false, false)
					return err
				})
			}
		case !refusedWith(err, amqp.ResourceLocked) || time.Now().After(deadline):
			return func() {}
		}
		if backoff.Sleep(d.ctx, creationPoll) != nil {
			return func() {}
		}
	}
}
