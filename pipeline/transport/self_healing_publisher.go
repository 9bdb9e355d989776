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

// SelfHealingPublisher is a publisher that repairs the topology: if the broker reports
// that an exchange of Watership does not exist, or that a message to one of Watership's
// exchanges or queues is unroutable, it calls LiveTopology.Repair and publishes once more.
// Errors of other exchanges and queues are returned.
type SelfHealingPublisher struct {
	publisher *rabbit.Publisher
	live      LiveTopology
	repairing chan struct{} // a token for the running repair
	repairs   atomic.Int64  // number of repairs that have ended
}

// NewSelfHealingPublisher returns a publisher that uses publisher and repairs live.
func NewSelfHealingPublisher(publisher *rabbit.Publisher, live LiveTopology) *SelfHealingPublisher {
	return &SelfHealingPublisher{publisher: publisher, live: live, repairing: make(chan struct{}, 1)}
}

// Publish publishes as *rabbit.Publisher does. If an exchange of Watership cannot be
// repaired, its error is not a *rabbit.RefusedError: the message is not the cause, and must
// not become poison.
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
		return fmt.Errorf("exchange %q does not exist and cannot be declared: %w", m.Exchange, cannot)
	}
	return fmt.Errorf("exchange %q was declared again and deleted again", m.Exchange)
}

// PublishAll publishes messages in their order without waiting for each confirm, and
// returns the result of Publish for each.
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

// bindingMissing reports whether a binding is missing for a message: an exchange of
// Watership has one for every message, unless it was just declared. The queues of
// services and of routes are bound by package directdelivery.
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

// repair runs one repair for all messages that failed before its end.
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
