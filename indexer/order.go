package indexer

import (
	"context"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// firstWithPriorities is the first major version of RabbitMQ whose quorum queues deliver by
// priority (https://www.rabbitmq.com/docs/quorum-queues#priorities).
const firstWithPriorities = 4

// findOrder finds out whether the queues of tap copies deliver by priority. RabbitMQ may have
// been upgraded since the last session.
func (r *eventDecoder) findOrder(ctx context.Context) error {
	if r.cfg.Classic {
		return nil
	}
	version, err := r.cfg.Broker.ServerVersion(ctx)
	if err != nil {
		return err
	}
	number, _, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(number)
	r.byPriority.Store(err != nil || major >= firstWithPriorities) // doubt gives a mark
	return nil
}

// deliveredByPriority reports whether RabbitMQ may have delivered a copy before copies of
// messages that were published earlier. Of two messages whose priorities differ at least one
// has a priority.
func (r *eventDecoder) deliveredByPriority(d *amqp.Delivery) bool {
	if d.Priority == 0 || !r.byPriority.Load() {
		return false
	}
	if !r.warnedOfPriority.Swap(true) {
		r.cfg.Logger.Warn("publishers set priorities, by which RabbitMQ delivers copies: the order of the record is not that of publishing; tap.queue_type: classic keeps it",
			"exchange", d.Exchange, "routing_key", d.RoutingKey, "priority", d.Priority)
	}
	return true
}
