package app

import (
	"context"

	"github.com/watershipmq/watership/internal/subscriptionrole"
	"github.com/watershipmq/watership/subscription"
)

// Subscriptions returns the subscriptions of the source.
func (a *App) Subscriptions(ctx context.Context) (*subscription.Subscriptions, error) {
	source, err := a.Source(ctx)
	if err != nil {
		return nil, err
	}
	events, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.subscriptions == nil {
		poster := subscriptionrole.NewPoster(a.settings.Subscriptions.PrivateNetworks)
		a.closers = append(a.closers, func() error { poster.Close(); return nil })
		var queues []string
		for _, route := range a.configured().Routes {
			queues = append(queues, route.Queue)
		}
		a.subscriptions = subscription.New(subscription.Config{
			Store: events, Source: source, URL: a.serverURL(), TLS: a.secrets.AMQPTLS, Instance: a.running.instance,
			Topology: a.topology, RouteQueues: queues, StateKeys: a.secrets.StateKeys, Fingerprints: a.settings.Fingerprint,
			Labels: a.DocumentFormat().LabelFields(), Post: poster.Post, Logger: a.logger,
		})
	}
	return a.subscriptions, nil
}

// runSubscriptions runs the subscriptions to queues and URLs until ctx ends.
func (s *Server) runSubscriptions(ctx context.Context) error {
	select {
	case <-s.handlers.Running():
	case <-ctx.Done():
		return nil
	}
	subscriptions, err := s.Subscriptions(ctx)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	return subscriptions.Serve(ctx)
}

// measureSubscriptions adds the metrics of subscriptions, which every process has: without one that runs
// them they would not tell that.
func (s *Server) measureSubscriptions(ctx context.Context) error {
	select {
	case <-s.handlers.Running():
	case <-ctx.Done():
		return nil
	}
	subscriptions, err := s.Subscriptions(ctx)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	s.registry.MustRegister(subscriptionrole.Metrics{Subscriptions: subscriptions, Timeout: serverTimeout / 3})
	return nil
}
