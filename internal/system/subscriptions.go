package system

import (
	"context"

	"github.com/watershipmq/watership/internal/system/poster"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/subscription"
)

// Subscriptions returns the subscriptions of the source.
func (s *System) Subscriptions(ctx context.Context) (*subscription.Subscriptions, error) {
	source, err := s.Source(ctx)
	if err != nil {
		return nil, err
	}
	events, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscriptions == nil {
		posting := poster.New(s.settings.Subscriptions.PrivateNetworks, s.dialTarget)
		s.closers = append(s.closers, func() error { posting.Close(); return nil })
		var queues []string
		for _, route := range s.configured().Routes {
			queues = append(queues, route.Queue)
		}
		s.subscriptions = subscription.New(subscription.Config{
			Store: events, Source: source, Connection: rabbitmq.Connection{URL: s.ServerURL(), Nodes: s.ServerNodes(), TLS: s.secrets.AMQPTLS, Dial: s.dial, Instance: s.running.instance},
			Opener: s.Opener(), Text: s.redactor.Text, Topology: s.topology, RouteQueues: queues, StateKeys: s.secrets.StateKeys, Fingerprints: s.settings.Fingerprint,
			Labels: s.DocumentFormat().LabelFields(), Post: posting.Post, Programs: s.programs, Logger: s.logger,
		})
	}
	return s.subscriptions, nil
}
