package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// formerQueue is a queue of tap copies under another limit than is configured now.
type formerQueue struct {
	schemas.Topology        // that it is of
	name             string // of the queue
	exchange         string // that it is bound to
}

func newFormerQueue(of schemas.Topology, name string) formerQueue {
	if name == of.Index() {
		return formerQueue{of, name, of.Tap()}
	}
	return formerQueue{of, name, of.Late()}
}

// formerQueues are those that are there, in the order in which they are to be
// emptied: what expires in the first goes to the second. Without the management API
// only those without a limit can be found.
func (s system) formerQueues(ctx context.Context, conn *rabbit.Connection) ([]formerQueue, error) {
	management, err := s.managementAPI()
	if err != nil {
		return nil, err
	}
	queues, err := management.Queues(ctx, s.vhost)
	if err != nil {
		return s.formerUnlimited(ctx, conn)
	}
	var former []formerQueue
	for _, q := range queues {
		if topology, is := s.topology.FormerIndex(q.Name); is {
			former = append(former, newFormerQueue(topology, q.Name))
		}
	}
	slices.SortFunc(former, func(a, b formerQueue) int { return strings.Compare(a.name, b.name) })
	return former, nil
}

func (s system) formerUnlimited(ctx context.Context, conn *rabbit.Connection) ([]formerQueue, error) {
	unlimited := schemas.Topology{Prefix: s.topology.Prefix}
	if unlimited == s.topology {
		return nil, nil
	}
	var former []formerQueue
	for _, name := range []string{unlimited.Index(), unlimited.IndexLate()} {
		_, err := look(ctx, conn, name)
		var broker *amqp091.Error
		switch {
		case errors.As(err, &broker) && broker.Code == amqp091.NotFound:
		case err != nil:
			return nil, fmt.Errorf("looking for queue %s: %w", name, err)
		default:
			former = append(former, newFormerQueue(unlimited, name))
		}
	}
	return former, nil
}

// look is what AMQP tells of a queue.
func look(ctx context.Context, conn *rabbit.Connection, queue string) (there amqp091.Queue, err error) {
	err = conn.Do(ctx, func(ch *amqp091.Channel) error {
		there, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	return there, err
}

// refuseFormer fails where setup has to run first. It waits for the broker.
func (s system) refuseFormer(ctx context.Context) (err error) {
	conn, err := s.connect("checking", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Life(ctx, 0); err != nil {
		return ignoreEnd(ctx, err)
	}
	former, err := s.formerQueues(ctx, conn)
	if err != nil || len(former) == 0 {
		return ignoreEnd(ctx, err)
	}
	return fmt.Errorf("queue %s is still there: tap.when_full or tap.limit has changed since it was made; run `watership setup`, which moves on to queue %s",
		former[0].name, s.topology.Index())
}
