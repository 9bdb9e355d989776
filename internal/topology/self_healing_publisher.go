package topology

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
// exchanges or queues is unroutable, it calls Reconciler.Repair and publishes once more.
// Errors of other exchanges and queues are returned. It calls Reconciler.EnsureReturns before.
type SelfHealingPublisher struct {
	publisher  *rabbit.Publisher
	reconciler Reconciler
	repairing  chan struct{} // a token for the running repair
	repairs    atomic.Int64  // number of repairs that have ended
}

// NewSelfHealingPublisher returns a publisher that publishes by publisher and repairs by reconciler.
func NewSelfHealingPublisher(publisher *rabbit.Publisher, reconciler Reconciler) *SelfHealingPublisher {
	if reconciler.SelfBindings == nil {
		reconciler.SelfBindings = &SelfBindings{}
	}
	return &SelfHealingPublisher{publisher: publisher, reconciler: reconciler, repairing: make(chan struct{}, 1)}
}

// Publish publishes as *rabbit.Publisher does. If an exchange of Watership cannot be
// repaired, its error is not a *rabbit.RefusedError: the message is not the cause, and must
// not become poison.
func (p *SelfHealingPublisher) Publish(ctx context.Context, m rabbit.Message) error {
	if err := p.reconciler.EnsureReturns(ctx, m.Exchange, m.RoutingKey); err != nil {
		return err
	}
	before := p.repairs.Load()
	err := p.publisher.Publish(ctx, m)
	if err == nil || !p.exchangeMissing(m, err) && !p.bindingMissing(m, err) {
		return err
	}
	repairErr := p.repair(ctx, before)
	err = p.publisher.Publish(ctx, m)
	switch {
	case !p.exchangeMissing(m, err):
		return err
	case repairErr != nil:
		return fmt.Errorf("exchange %q does not exist and cannot be declared: %w", m.Exchange, repairErr)
	}
	return fmt.Errorf("exchange %q was declared again and deleted again", m.Exchange)
}

// PublishAll publishes messages in their order without waiting for each confirm, and
// returns the result of Publish for each.
func (p *SelfHealingPublisher) PublishAll(ctx context.Context, messages []rabbit.Message) []error {
	errs := make([]error, len(messages))
	sent := make([]*rabbit.Pending, len(messages))
	for i, m := range messages {
		if errs[i] = p.reconciler.EnsureReturns(ctx, m.Exchange, m.RoutingKey); errs[i] == nil {
			sent[i], errs[i] = p.publisher.Send(ctx, m)
		}
	}
	for i, m := range messages {
		if errs[i] == nil {
			errs[i] = sent[i].Wait(ctx)
		}
		if p.exchangeMissing(m, errs[i]) || p.bindingMissing(m, errs[i]) {
			errs[i] = p.Publish(ctx, m)
		}
	}
	return errs
}

func (p *SelfHealingPublisher) exchangeMissing(m rabbit.Message, err error) bool {
	var refused *rabbit.RefusedError
	return errors.As(err, &refused) && refused.Code == amqp.NotFound && p.reconciler.config().Owns(m.Exchange)
}

// bindingMissing reports whether a binding is missing for a message: an exchange of
// Watership has one for every message, unless it was just declared. The queues of
// services and of routes are bound by DirectDelivery, and paused routes to the exchange of
// pauses.
func (p *SelfHealingPublisher) bindingMissing(m rabbit.Message, err error) bool {
	var lost *rabbit.UnroutableError
	c := p.reconciler.config()
	switch {
	case !errors.As(err, &lost):
		return false
	case m.Exchange == c.Direct():
		return slices.ContainsFunc(c.queues(), func(q queue) bool { return q.name == m.RoutingKey })
	}
	return c.Owns(m.Exchange) && m.Exchange != c.Return() && m.Exchange != c.Pauses()
}

// repair runs one repair for all messages that failed before its end.
func (p *SelfHealingPublisher) repair(ctx context.Context, repairsBefore int64) error {
	select {
	case p.repairing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.repairing }()
	if p.repairs.Load() > repairsBefore {
		return nil
	}
	defer p.repairs.Add(1)
	return p.reconciler.Repair(ctx)
}
