package app

import (
	"context"

	"github.com/watershipmq/watership/replayer"
)

// Replayer returns a Replayer that lists, runs and cancels jobs.
func (a *App) Replayer(ctx context.Context) (*replayer.Replayer, error) { return a.replayer(ctx, true) }

// Planner returns a Replayer that plans jobs, too. Unless unchecked is set, plans find
// out which messages would reach no queue.
func (a *App) Planner(ctx context.Context, unchecked bool) (*replayer.Replayer, error) {
	if a.running.noBroker != nil {
		return nil, a.running.noBroker
	}
	return a.replayer(ctx, unchecked)
}

func (a *App) replayer(ctx context.Context, uncheckedRoutes bool) (*replayer.Replayer, error) {
	events, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	broker := a.brokerConfig("replay")
	return replayer.New(replayer.Config{
		Store: events, Jobs: events, Topology: a.topology, StateKeys: a.secrets.StateKeys, Fingerprints: a.settings.Fingerprint, Retention: a.settings.Store.Retention.Failures,
		URL: broker.URL, TLS: broker.TLS, Instance: broker.Instance, Logger: a.logger,
		ManagementURL: a.settings.AMQP.ManagementURL.Reveal(), UncheckedRoutes: uncheckedRoutes, Programs: a.programs, RouteQueues: a.routeQueues(true),
	}), nil
}
