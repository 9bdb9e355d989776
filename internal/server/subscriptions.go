package server

import "context"

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
	s.registry.MustRegister(subscriptionMetrics{subscriptions, serverTimeout / 3})
	return nil
}
