package replays

import (
	"context"

	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer"
)

// Replayer returns a Replayer that lists, runs and cancels jobs.
func Replayer(ctx context.Context, sys *system.System) (*replayer.Replayer, error) {
	return newReplayer(ctx, sys, true)
}

// Planner returns a Replayer that plans jobs, too. Unless unchecked is set, plans find
// out which messages would reach no queue.
func Planner(ctx context.Context, sys *system.System, unchecked bool) (*replayer.Replayer, error) {
	if err := sys.NoBroker(); err != nil {
		return nil, err
	}
	return newReplayer(ctx, sys, unchecked)
}

func newReplayer(ctx context.Context, sys *system.System, uncheckedRoutes bool) (*replayer.Replayer, error) {
	events, err := sys.Store(ctx)
	if err != nil {
		return nil, err
	}
	broker, settings := sys.Broker("replay"), sys.Settings()
	return replayer.New(replayer.Config{
		Opener: sys.Opener(), Store: events, Jobs: events, Topology: sys.Topology(), StateKeys: sys.Secrets().StateKeys, Fingerprints: settings.Fingerprint, Retention: settings.Store.Retention.Failures,
		Connection: rabbitmq.Connection{URL: broker.URL, Nodes: broker.Nodes, TLS: broker.TLS, Dial: broker.Dial, Instance: broker.Instance}, Logger: sys.Logger(),
		ManagementURL: settings.AMQP.ManagementURL.Reveal(), ManagementNodes: settings.AMQP.ManagementURL.Nodes(), UncheckedRoutes: uncheckedRoutes, Programs: sys.Programs(), TracerProvider: sys.Exporters().TracerProvider(), BareSpans: sys.Redactor() != nil, RouteQueues: settings.HandledQueues(),
	}), nil
}
