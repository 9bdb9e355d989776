package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/breaker"
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

// countingDelay is how long a message of a classic queue waits while its deliveries are
// counted.
const countingDelay = time.Second

// deliveriesBefore returns the number of earlier deliveries of a message that had no
// outcome. Quorum queues count them (https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling);
// counted is false for a redelivery from a classic queue.
func deliveriesBefore(ctx context.Context, s schemas.State) (deliveries int, counted bool) {
	arrived, _ := schemas.FromContext(ctx)
	count, known := arrived.Headers["x-delivery-count"].(int64)
	return s.Deliveries + int(min(max(0, count), 1<<20)), known || !transport.Redelivered(ctx)
}

// guard waits until the handler may be called with a message; then end must be called after
// the handler. done is true if a message that was delivered too often has become poison, or
// waits while its deliveries are counted.
func (h *routeHandler) guard(ctx context.Context, verified schemas.VerifiedState) (end func(), done bool, err error) {
	g := h.crashGuard
	deliveries, counted := deliveriesBefore(ctx, verified.State)
	if !counted {
		deliveries++
	}
	switch {
	case deliveries == 0 || !g.Counts(verified.State.Fingerprint):
		end, err = g.Begin(ctx)
		return end, false, err
	case !counted && deliveries < g.Limit:
		verified.State.Deliveries = deliveries
		return nil, true, h.endDelivery(ctx, verified, deliveries, retry.Decision{Action: retry.Defer, Delay: countingDelay})
	case deliveries < g.Limit-1:
		end, err = g.Begin(ctx)
		return end, false, err
	}
	if end, err = g.BeginAlone(ctx, transport.DeliveryTag(ctx)); err != nil || !g.Condemns(deliveries) {
		return end, false, err
	}
	defer end()
	return nil, true, h.endDelivery(ctx, verified, deliveries, retry.Decision{Action: retry.Poison})
}

// endDelivery publishes a message that was delivered without an outcome, as decided.
func (h *routeHandler) endDelivery(ctx context.Context, verified schemas.VerifiedState, deliveries int, decision retry.Decision) error {
	why := failure(&DeliveriesError{Queue: h.route.Queue, Deliveries: deliveries})
	decision.Reason = why.Message
	return h.handleFailure(ctx, verified, failedAttempt{
		queue: h.route.Queue, label: h.route.Queue, verdict: verdict{decision: decision, failure: breaker.Failure{Failure: why}},
	})
}
