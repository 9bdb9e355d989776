// Package lease has the connection of a job, which holds the exclusive queue of the job: the
// right to send its messages ends with the connection.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// Config configures the connection of a job.
type Config struct {
	Broker    rabbit.Config
	Topology  schemas.Topology
	StateKeys schemas.StateKeys
	Login     string
	Window    int // messages without a confirm
}

// Lease is the connection on which a job publishes. It holds the exclusive queue of the job.
type Lease struct {
	*exclusive.Connection
	Publisher *rabbit.Publisher
	Delivery  topology.DirectDelivery // to single queues
}

const startTimeout = 30 * time.Second // for other jobs to start

// Queue returns the name of the exclusive queue of a job.
func Queue(topology schemas.Topology, id string) string {
	return topology.Name(".job." + id)
}

// Open waits for the broker, and for the broker to detect a runner that has just died. The
// error is exclusive.ErrLocked if another runner is alive.
func Open(ctx context.Context, cfg Config, id string, timeout time.Duration) (*Lease, error) {
	conn, err := exclusive.Open(ctx, cfg.Broker, Queue(cfg.Topology, id), timeout)
	if err != nil {
		return nil, fmt.Errorf("holding the queue of job %s: %w", id, err)
	}
	binding, err := conn.Other()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connecting for job %s: %w", id, err), conn.Close())
	}
	publisher := rabbit.NewPublisher(conn.Connection, rabbit.PublisherConfig{Window: cfg.Window})
	return &Lease{conn, publisher, topology.DirectDelivery{
		Topology: cfg.Topology, StateKeys: cfg.StateKeys, Publisher: publisher, Login: cfg.Login,
		Binder: topology.Reconciler{Conn: binding, Config: topology.Config{Topology: cfg.Topology}, SelfBindings: &topology.SelfBindings{}},
	}}, nil
}

// LockStart serializes the start of jobs, so that the second of two jobs with the same
// messages sees the first. release lets the next job start.
func (l *Lease) LockStart(ctx context.Context, topology schemas.Topology, id string) (release func(context.Context) error, err error) {
	queue := Queue(topology, "start")
	release, err = l.Lock(ctx, queue, startTimeout)
	switch {
	case errors.Is(err, exclusive.ErrLocked):
		return nil, fmt.Errorf("starting job %s: another job has been starting for %s and holds the queue %s: try again", id, startTimeout, queue)
	case err != nil:
		return nil, fmt.Errorf("starting job %s: %w", id, err)
	}
	return release, nil
}

// IsHeld reports whether the exclusive queue of a job exists, which its runner holds.
func (l *Lease) IsHeld(ctx context.Context, queue string) (bool, error) {
	_, found, err := l.QueueState(ctx, queue)
	return found, err
}

// Exists reports whether a queue exists; true if the broker does not say so, as to a login that may not know, or
// while the node of the queue is down.
func (l *Lease) Exists(ctx context.Context, queue string) (bool, error) {
	_, found, err := l.QueueState(ctx, queue)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Server {
		return true, nil
	}
	return found, err
}

// Close closes the connection, with which the queue ends. Messages without a confirm may have
// arrived.
func (l *Lease) Close() error {
	var left error
	select {
	case <-l.Lost(): // no confirm can arrive
	default:
		left = l.Publisher.Close()
	}
	err := errors.Join(left, l.Connection.Close())
	return errors.Join(err, l.Publisher.Close())
}
