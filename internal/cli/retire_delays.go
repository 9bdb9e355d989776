package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/terminal"
)

// retireDelays deletes the empty delay queues of a former release. Messages in the
// others go on by themselves. Only the management API tells that at-least-once
// dead-lettering is done with a queue, so without it none is deleted.
func (s system) retireDelays(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	management, err := s.managementAPI()
	if err != nil {
		return err
	}
	queues, err := management.Queues(ctx, s.vhost)
	if err != nil {
		return nil //nolint:nilerr // serve and doctor say that it does not answer
	}
	moving, err := management.DeadLettering(ctx, s.vhost)
	if err != nil {
		return err
	}
	conn, err := s.connect("setup", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, q := range queues {
		if !s.topology.IsFormerDelay(q.Name) {
			continue
		}
		left, err := deleteDelay(ctx, conn, q.Name, max(q.Messages, moving[q.Name]))
		switch {
		case err != nil:
			return err
		case left > 0:
			fmt.Fprintf(out, "delays      %s holds %s of a former release: run setup again once it is empty\n", q.Name, terminal.Plural(int(left), "message"))
		default:
			fmt.Fprintf(out, "delays      %s of a former release is empty, and deleted\n", q.Name)
		}
	}
	return nil
}

// deleteDelay deletes a queue that is empty now, and was when the management API
// counted some seconds ago, or returns the number of messages left. Quorum queues
// cannot be deleted with if-empty.
func deleteDelay(ctx context.Context, conn *rabbit.Connection, queue string, counted int64) (left int64, err error) {
	there, err := look(ctx, conn, queue)
	if err != nil {
		return 0, fmt.Errorf("looking at queue %s: %w", queue, err)
	}
	if left := max(counted, int64(there.Messages)); left > 0 {
		return left, nil
	}
	err = conn.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("deleting queue %s: %w", queue, err)
	}
	return 0, nil
}
