package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// DeliveriesError is the failure of a message that was delivered too often without an
// outcome, as when its handler ends the process.
type DeliveriesError struct {
	Queue      string
	Deliveries int
}

func (e *DeliveriesError) Error() string {
	return fmt.Sprintf("delivered %d times from queue %q without an outcome, as by a handler that ends its process", e.Deliveries, e.Queue)
}

const (
	// countingDelay is how long a message of a classic queue waits while its deliveries are
	// counted, and any message that becomes a suspect.
	countingDelay = time.Second

	// suspectDelay is how long a suspect waits for another one.
	suspectDelay = 5 * time.Second
)

// deliveriesBefore returns the number of earlier deliveries of a message that had no
// outcome. Quorum queues count them (https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling):
// since RabbitMQ 4.3 without those that a process gave back, which only x-acquired-count includes.
// counted is false for a redelivery from a classic queue. A message that has to wait for its
// turn waited at its earlier deliveries, too, since the same messages were in front of it: no
// handler had it.
func deliveriesBefore(ctx context.Context, s schemas.State) (deliveries int, counted bool) {
	if a, found := arrivalOf(ctx); found && a.ticket.Waited() {
		return s.Deliveries, true
	}
	arrived, _ := schemas.FromContext(ctx)
	count, failed := arrived.Headers["x-delivery-count"].(int64)
	_, acquired := arrived.Headers["x-acquired-count"]
	return s.Deliveries + int(min(max(0, count), 1<<20)), failed || acquired || !transport.Redelivered(ctx)
}

// guard waits until the handler may be called with a message; then end must be called once the
// message is acknowledged: until then, another message that ends the process would have this
// one delivered again. done is true if a message that was delivered too often has become poison, or
// waits while its deliveries are counted or another suspect is handled.
func (h *routeHandler) guard(ctx context.Context, verified schemas.VerifiedState) (end func(), done bool, err error) {
	g, suspect := h.crashGuard, verified.State.Suspect
	deliveries, counted := deliveriesBefore(ctx, verified.State)
	if !counted {
		deliveries++
	}
	if transport.Redelivered(ctx) && !g.Counts(verified.State.Fingerprint) {
		deliveries, counted = verified.State.Deliveries, true
	}
	wait := func(delay time.Duration) (func(), bool, error) {
		return nil, true, h.endDelivery(ctx, verified, deliveries, retry.Decision{Action: retry.Defer, Delay: delay})
	}
	all, condemned := g.Condemns(deliveries)
	switch {
	case deliveries > 0 && suspect && condemned:
		return nil, true, h.endDelivery(ctx, verified, all, retry.Decision{Action: retry.Poison})
	case deliveries > 0 && !suspect && g.Suspects(deliveries):
		if all, condemned := g.Condemns(0); condemned {
			return nil, true, h.endDelivery(ctx, verified, all, retry.Decision{Action: retry.Poison})
		}
		verified.State.Suspect, verified.State.Deliveries = true, 0
		return wait(countingDelay)
	case !counted:
		verified.State.Deliveries = deliveries
		return wait(countingDelay)
	case !suspect:
		end, err = g.Begin(ctx)
		return end, false, err
	}
	end, alone, err := g.BeginAlone(ctx)
	if err == nil && !alone {
		left := g.Leave()
		if !transport.AfterSettled(ctx, left) {
			defer left()
		}
		verified.State.Deliveries, deliveries = deliveries, all
		return wait(suspectDelay)
	}
	return end, false, err
}

// endDelivery publishes a message that was delivered without an outcome, as decided.
func (h *routeHandler) endDelivery(ctx context.Context, verified schemas.VerifiedState, deliveries int, decision retry.Decision) error {
	why := failure(&DeliveriesError{Queue: h.route.Queue, Deliveries: deliveries})
	decision.Reason = why.Message
	return h.handleFailure(ctx, verified, failedAttempt{
		queue: h.route.Queue, label: h.route.Queue, verdict: verdict{decision: decision, failure: breaker.Failure{Failure: why}},
	})
}
