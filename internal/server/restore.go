package server

import (
	"context"
	"errors"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
)

// restore declares queues of Watership that were deleted while no process ran, with an event for each,
// and calls recorded with their names.
func restore(ctx context.Context, sys *system.System, migration topology.Migration, recorded func(queue string)) (err error) {
	publisher := rabbit.NewPublisher(migration.Conn, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	by := reconciler(sys, migration.Conn, publisher)
	record := by.Lost
	by.Lost = func(ctx context.Context, queue string) error {
		err := record(ctx, queue)
		if err == nil {
			recorded(queue)
		}
		return err
	}
	return migration.Restore(ctx, by)
}

// reconciler declares queues of Watership again, and records their loss.
func reconciler(sys *system.System, conn *rabbit.Connection, publisher *rabbit.Publisher) topology.Reconciler {
	verifier := &wire.Verifier{Topology: sys.Topology(), Keys: sys.Secrets().StateKeys}
	return topology.Reconciler{
		Conn:         conn,
		Config:       topology.Config{Topology: sys.Topology(), QueueType: topology.QueueType(sys.Settings().Topology.QueueType)},
		SelfBindings: &topology.SelfBindings{}, Turns: make(chan struct{}, 1),
		Lost:   topology.Losses{Verifier: verifier, Publisher: publisher}.Record,
		Logger: sys.Logger(),
	}
}
