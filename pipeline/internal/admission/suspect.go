package admission

import (
	"context"
	"time"

	"github.com/watershipmq/watership/pipeline/internal/delivery"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

const (
	// countingDelay is how long a message of a classic queue waits while its deliveries are
	// counted, and any message that becomes a suspect.
	countingDelay = time.Second

	// suspectDelay is how long a suspect waits for another one.
	suspectDelay = 5 * time.Second
)

// awaitSuspects waits until the handler may be called with the message, which ends once the message
// is acknowledged: until then, another message that ends the process would have this one delivered
// again.
func (t *Ticket) awaitSuspects(ctx context.Context) (Next, error) {
	g, s := t.of.guard, &t.State
	deliveries, counted := t.deliveriesBefore(ctx)
	if !counted {
		deliveries++
	}
	if delivery.Redelivered(ctx) && !g.Counts(s.Fingerprint) {
		deliveries, counted = s.Deliveries, true
	}
	all, condemned := g.Condemns(deliveries)
	switch {
	case deliveries > 0 && s.Suspect && condemned:
		return suspected(all, retry.Decision{Action: retry.Poison}), nil
	case deliveries > 0 && !s.Suspect && g.Suspects(deliveries):
		if all, condemned := g.Condemns(0); condemned {
			return suspected(all, retry.Decision{Action: retry.Poison}), nil
		}
		s.Suspect, s.Deliveries = true, 0
		return suspected(deliveries, retry.Decision{Action: retry.Defer, Delay: countingDelay}), nil
	case !counted:
		s.Deliveries = deliveries
		return suspected(deliveries, retry.Decision{Action: retry.Defer, Delay: countingDelay}), nil
	}
	var end func()
	var err error
	begun := true
	if s.Suspect {
		end, begun, err = g.BeginAlone(ctx)
	} else {
		end, err = g.Begin(ctx)
	}
	switch {
	case err != nil:
		return Next{}, err
	case !begun:
		t.afterSettled(ctx, g.Leave())
		s.Deliveries = deliveries
		return suspected(all, retry.Decision{Action: retry.Defer, Delay: suspectDelay}), nil
	}
	t.afterSettled(ctx, end)
	return Next{}, nil
}

func suspected(deliveries int, d retry.Decision) Next {
	return Next{Step: Suspected, Deliveries: deliveries, Decision: d}
}

// deliveriesBefore returns the number of earlier deliveries of the message that had no
// outcome. Quorum queues count them (https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling):
// since RabbitMQ 4.3 without those that a process gave back, which only x-acquired-count includes.
// counted is false for a redelivery from a classic queue. A message that has to wait for its
// turn waited at its earlier deliveries, too, since the same messages were in front of it: no
// handler had it.
func (t *Ticket) deliveriesBefore(ctx context.Context) (deliveries int, counted bool) {
	if t.share != nil && t.share.Waited() {
		return t.State.Deliveries, true
	}
	arrived, _ := schemas.FromContext(ctx)
	count, failed := arrived.Headers["x-delivery-count"].(int64)
	_, acquired := arrived.Headers["x-acquired-count"]
	return t.State.Deliveries + int(min(max(0, count), 1<<20)), failed || acquired || !delivery.Redelivered(ctx)
}
