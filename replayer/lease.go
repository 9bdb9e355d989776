package replayer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/exclusive"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// BusyError reports that another process runs the job.
type BusyError struct{ ID string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("job %s is run by another process, which holds its queue at the broker: "+
		"wait, or stop it with `watership jobs cancel %[1]s`", e.ID)
}

// lease is the connection on which a job publishes. It holds the job's exclusive queue.
type lease struct {
	*exclusive.Connection
	publisher *rabbit.Publisher
	delivery  topology.DirectDelivery
}

const (
	startTimeout     = 30 * time.Second // for other jobs to start
	connectTimeout   = 30 * time.Second // for the broker or the store at the start
	reconnectTimeout = 5 * time.Minute  // for the broker after a connection was lost
)

// JobQueue returns the name of the exclusive queue that the runner of a job holds.
func JobQueue(topology schemas.Topology, id string) string {
	prefix := topology.Prefix
	if prefix == "" {
		prefix = schemas.DefaultPrefix
	}
	return prefix + ".job." + id
}

// connect waits for the broker, and for the broker to detect a runner that has just
// died. The error is a *BusyError if another runner is alive.
func (r *Replayer) connect(ctx context.Context, id string, timeout time.Duration) (*lease, error) {
	conn, err := exclusive.Open(ctx, r.connection(), JobQueue(r.cfg.Topology, id), timeout)
	switch {
	case errors.Is(err, exclusive.ErrLocked):
		return nil, &BusyError{id}
	case err != nil:
		return nil, fmt.Errorf("holding the queue of job %s: %w", id, err)
	}
	publisher := rabbit.NewPublisher(conn.Connection, rabbit.PublisherConfig{Window: maxUnconfirmed})
	return &lease{conn, publisher, r.directDelivery(conn.Connection, publisher)}, nil
}

// lockStart serializes the start of jobs, so that the second of two jobs with the same
// messages sees the first. release lets the next job start.
func (r *Replayer) lockStart(ctx context.Context, l *lease, id string) (release func(context.Context) error, err error) {
	queue := JobQueue(r.cfg.Topology, "start")
	release, err = l.Lock(ctx, queue, startTimeout)
	switch {
	case errors.Is(err, exclusive.ErrLocked):
		return nil, fmt.Errorf("starting job %s: another job has been starting for %s and holds the queue %s: try again", id, startTimeout, queue)
	case err != nil:
		return nil, fmt.Errorf("starting job %s: %w", id, err)
	}
	return release, nil
}

// isHeld reports whether the exclusive queue of a job exists, which its runner holds.
func (l *lease) isHeld(ctx context.Context, queue string) (bool, error) {
	_, found, err := l.QueueState(ctx, queue)
	return found, err
}

// log returns the state of the queue of events.
func (l *lease) log(ctx context.Context, queue string) (Log, error) {
	log, _, err := l.QueueState(ctx, queue)
	return Log{Events: log.Messages, Consumers: log.Consumers}, err
}

// Close closes the connection, with which the queue ends. Messages without a confirm
// may have arrived.
func (l *lease) Close() error {
	var left error
	select {
	case <-l.Lost(): // no confirm can arrive
	default:
		left = l.publisher.Close()
	}
	err := errors.Join(left, l.Connection.Close())
	return errors.Join(err, l.publisher.Close())
}
