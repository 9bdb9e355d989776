package rabbit

import (
	"context"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
)

// Channels calls do with a channel of a connection, and closes the channel.
type Channels interface {
	Do(ctx context.Context, do func(*amqp.Channel) error) error
}

const aloneSuffix = ".reader"

// DoAlone is Do of channels for work that only one channel of all processes may do with a queue at a time,
// such as reading it without an acknowledgement. It waits for the others until ctx ends. A login that may not
// configure the queue with the suffix .reader, which keeps the others away, does not wait. No process waits while
// the node of that queue is down.
func DoAlone(ctx context.Context, channels Channels, queue string, do func(*amqp.Channel) error) error {
	pauses := backoff.Backoff{Min: 100 * time.Millisecond, Max: 2 * time.Second} // RabbitMQ logs each attempt as an error
	for attempt := 1; ; attempt++ {
		err := channels.Do(ctx, func(ch *amqp.Channel) error {
			if err := occupy(ch, queue+aloneSuffix); err != nil {
				return &occupyError{err}
			}
			return do(ch)
		})
		var failed *occupyError
		switch {
		case !errors.As(err, &failed):
			return err
		case failed.isOccupied() || IsMissing(err): // or was deleted with the consumer of another channel
		case failed.isForbidden(), failed.isAway():
			return channels.Do(ctx, do)
		default:
			return err
		}
		if err := pauses.Wait(ctx, attempt, 0); err != nil {
			return err
		}
	}
}

// occupy keeps other channels away until the channel is closed: a classic queue has one exclusive consumer, and
// is deleted when it has none.
func occupy(ch *amqp.Channel, queue string) error {
	if _, err := ch.QueueDeclare(queue, true, true, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
		return err
	}
	_, err := ch.Consume(queue, "", true, true, false, false, nil)
	return err
}

// occupyError is the error of occupy.
type occupyError struct{ error }

func (e *occupyError) Unwrap() error { return e.error }

func (e *occupyError) isOccupied() bool {
	answer, refused := reply(e.error)
	return refused && answer.Code == amqp.AccessRefused && strings.HasSuffix(answer.Reason, "in exclusive use")
}

func (e *occupyError) isAway() bool {
	answer, refused := reply(e.error)
	return refused && answer.Code == amqp.NotFound && !IsMissing(e.error)
}

func (e *occupyError) isForbidden() bool {
	answer, refused := reply(e.error)
	return refused && answer.Code == amqp.AccessRefused
}
