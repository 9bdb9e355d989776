package failures

import (
	"context"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/system"
)

// ParkedCopies are the messages in the parking queue of a route, which stay there when
// their failures are resolved.
type ParkedCopies struct {
	Queue    string `json:"queue"`
	Messages int    `json:"messages"`
}

// FindParkedCopies returns the parking queues with messages that belong to some queues. It omits
// those that the login may not see.
func FindParkedCopies(ctx context.Context, sys *system.System, queues []string) ([]ParkedCopies, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	conn, err := sys.Dial(ctx)
	if err != nil {
		return nil, err
	}
	var parked []ParkedCopies
	for _, queue := range queues {
		parking := sys.Topology().Parking(queue)
		state, _, err := conn.CertainQueueState(ctx, parking)
		var refused *amqp091.Error
		if err != nil && !(errors.As(err, &refused) && refused.Code == amqp091.AccessRefused) {
			return nil, err
		}
		if state.Messages > 0 {
			parked = append(parked, ParkedCopies{parking, state.Messages})
		}
	}
	return parked, nil
}

// previewParked returns FindParkedCopies for a preview, which needs the store alone: without RabbitMQ
// there are none.
func previewParked(ctx context.Context, sys *system.System, queues []string) ([]ParkedCopies, error) {
	if sys.NoBroker() != nil {
		return nil, nil
	}
	parked, err := FindParkedCopies(ctx, sys, queues)
	var away *system.BrokerError
	if errors.As(err, &away) && ctx.Err() == nil {
		return nil, nil
	}
	return parked, err
}
