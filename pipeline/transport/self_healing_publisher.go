package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// SelfHealingPublisher is a publisher that brings back what is ours: where the broker says
// that an exchange of ours is not there, or that a message for one or for a queue of
// ours reaches no queue, it restores the topology and publishes once more. What is
// not ours stays the caller's affair.
type SelfHealingPublisher struct {
	publisher *rabbit.Publisher
	live      LiveTopology
	repairing chan struct{} // has room for whoever restores
	repairs   atomic.Int64  // how often that has ended
}

// NewSelfHealingPublisher publishes with publisher and restores live.
func NewSelfHealingPublisher(publisher *rabbit.Publisher, live LiveTopology) *SelfHealingPublisher {
	return &SelfHealingPublisher{publisher: publisher, live: live, repairing: make(chan struct{}, 1)}
}

// Publish is that of *rabbit.Publisher. Where an exchange of ours cannot be brought
// back, its error is not a *rabbit.RefusedError: the message is not to blame, and is
// not to be given up.
func (r *SelfHealingPublisher) Publish(ctx context.Context, m rabbit.Message) error {
	before := r.repairs.Load()
	err := r.publisher.Publish(ctx, m)
	if !r.exchangeMissing(m, err) && !r.bindingMissing(m, err) {
		return err
	}
	cannot := r.repair(ctx, before)
	err = r.publisher.Publish(ctx, m)
	switch {
	case !r.exchangeMissing(m, err):
		return err
	case cannot != nil:
		return fmt.Errorf("exchange %q is not there and cannot be brought back: %w", m.Exchange, cannot)
	}
	return fmt.Errorf("exchange %q was brought back and is gone again", m.Exchange)
}

// PublishAll sends messages in their order, without waiting for one before the
// next, and returns what Publish returns of each.
func (r *SelfHealingPublisher) PublishAll(ctx context.Context, messages []rabbit.Message) []error {
	errs := make([]error, len(messages))
	sent := make([]*rabbit.Pending, len(messages))
	for i, m := range messages {
		sent[i], errs[i] = r.publisher.Send(ctx, m)
	}
	for i, m := range messages {
		if errs[i] == nil {
			errs[i] = sent[i].Wait(ctx)
		}
		if r.exchangeMissing(m, errs[i]) || r.bindingMissing(m, errs[i]) {
			errs[i] = r.Publish(ctx, m)
		}
	}
	return errs
}

func (r *SelfHealingPublisher) exchangeMissing(m rabbit.Message, err error) bool {
	var refused *rabbit.RefusedError
	return errors.As(err, &refused) && refused.Code == amqp.NotFound && r.live.Config.Owns(m.Exchange)
}

// bindingMissing: an exchange of ours has a binding for every message, unless it was
// made a moment ago and is about to be bound. The queues of services and of routes are
// bound by the last hop.
func (r *SelfHealingPublisher) bindingMissing(m rabbit.Message, err error) bool {
	var lost *rabbit.UnroutableError
	c := r.live.Config
	switch {
	case !errors.As(err, &lost):
		return false
	case m.Exchange == c.Direct():
		return slices.ContainsFunc(c.queues(), func(q queue) bool { return q.name == m.RoutingKey })
	}
	return c.Owns(m.Exchange) && m.Exchange != c.Return()
}

// repair does it once for all messages that failed before it was done.
func (r *SelfHealingPublisher) repair(ctx context.Context, before int64) error {
	select {
	case r.repairing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.repairing }()
	if r.repairs.Load() > before {
		return nil
	}
	defer r.repairs.Add(1)
	return r.live.Repair(ctx)
}
