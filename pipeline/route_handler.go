package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/admission"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// routeHandler calls the handler of one route.
//
//	success: outgoing messages, `handled` event, acknowledgement
//	failure: event, delay queue or poison queue, acknowledgement
type routeHandler struct {
	*messageFlow
	route     Route
	outlet    publisher            // of outgoing messages
	admission *admission.Admission // decides when a message may start
	onHang    func(retry.Attempt)  // may be nil
}

// admissionConfig returns the configuration of the admission that the handler needs.
func (h *routeHandler) admissionConfig() admission.Config {
	r := h.route
	cfg := admission.Config{
		Queue: r.Queue, Concurrency: r.Concurrency, Timeout: r.Timeout, MaxDeliveries: r.MaxDeliveries, Breaker: *r.Breaker,
		Fairness: admission.Fairness{Key: r.Fairness.Key, PerKey: r.Fairness.Concurrency, Interval: r.Fairness.interval(), Ordered: r.Fairness.Ordered},
		Ordering: admission.Ordering{
			Key: r.Ordering.Key, Sequence: r.Ordering.Sequence, Within: r.Ordering.Within, Open: r.Ordering.Open, IsEarly: h.isEarly, Record: h.recordWait,
		},
		Running: &admission.Running{}, Verify: h.verify, Record: h.recordRoute,
		Metrics: h.metrics, Goroutines: h.goroutines, Now: h.now, NewID: h.newID, Logger: h.logger,
	}
	if r.Timeout > 0 {
		cfg.HangTimeout = r.Timeout + hangGrace
	}
	return cfg
}

// handle returns nil to acknowledge. An error means that no durable copy was confirmed,
// so that the message must be delivered once more.
func (h *routeHandler) handle(msg *message.Message) error {
	ctx := msg.Context()
	ticket, err := h.admission.Ticket(ctx)
	var newer *wire.NewerVersionError
	if errors.As(err, &newer) {
		return h.poisonUnreadable(ctx, h.route, newer)
	}
	if err != nil {
		return err
	}
	acknowledged := false // unless it returns
	defer func() { ticket.Done(ctx, acknowledged) }()
	err = h.handleTicket(msg, ticket)
	acknowledged = err == nil && !isNacked(msg)
	return err
}

func (h *routeHandler) handleTicket(msg *message.Message, ticket *admission.Ticket) error {
	ctx := msg.Context()
	if limit := h.route.maxAttempts(); ticket.State.Attempt >= limit {
		return h.poisonExhausted(ctx, ticket.VerifiedState, limit)
	}
	var produced []*message.Message
	var answer string
	next, err := ticket.Run(ctx, func() (err error) { produced, answer, err = h.attempt(msg, &ticket.VerifiedState); return err })
	if err != nil {
		return err
	}
	switch next.Step {
	case admission.Requeue:
		msg.Nack()
		return nil
	case admission.Wait:
		return h.wait(ctx, ticket.VerifiedState, next.Unavailable)
	case admission.Suspected:
		return h.endDelivery(ctx, ticket, next.Deliveries, next.Decision)
	}
	ticket.State.Started = startOf(ticket.VerifiedState, next.Started)
	why := next.Why
	if why == nil {
		why, err = h.publish(ctx, ticket.VerifiedState, produced)
	}
	switch {
	case err != nil:
		return err
	case why != nil:
		return h.fail(ctx, ticket, next.Took, why)
	}
	ticket.State.Answer = answer
	return h.succeed(ctx, ticket, next.Took)
}

// poisonExhausted publishes a message as poison that is delivered with all its attempts
// used: the policy allows fewer than before, or a copy of it reached the queue.
func (h *routeHandler) poisonExhausted(ctx context.Context, verified wire.VerifiedState, maxAttempts int) error {
	h.metrics.Attempts.WithLabelValues(h.route.Queue, call.ResultLabel(retry.Poison)).Inc()
	state := verified.State
	state.Time, state.Duration = h.now(), 0
	state.Failure.Message = fmt.Sprintf("it had %d attempts, of which the policy allows %d; it had failed with: %s",
		state.Attempt, maxAttempts, state.Failure.Message)
	return h.poison(ctx, verified.Envelope, state)
}

// wait publishes a message that has to wait before its attempt, and an event if it has a failure.
func (h *routeHandler) wait(ctx context.Context, waiting wire.VerifiedState, why *schemas.Failure) error {
	if why != nil {
		event := waiting.State
		event.Failure = *why
		if err := h.publishEvent(ctx, schemas.RetryScheduled, waiting.Envelope, event); err != nil {
			return err
		}
	}
	return h.schedule(ctx, waiting.Envelope, waiting.State, waiting.State.Delay)
}

// endDelivery publishes a message that was delivered without an outcome, as decided.
func (h *routeHandler) endDelivery(ctx context.Context, t *admission.Ticket, deliveries int, decision retry.Decision) error {
	why := failure(&DeliveriesError{Queue: h.route.Queue, Deliveries: deliveries})
	decision.Reason = why.Message
	if t.State.Suspect && decision.Action == retry.Defer && !h.frameMax().CountsDeliveries(t.Envelope, t.State.Waited(h.now())) {
		decision.Action = retry.Poison // it would come back as a new message, and end one process after the other
	}
	return h.handleFailure(ctx, t, 0, verdict{decision: decision, failure: breaker.Failure{Failure: why}})
}

func (h *routeHandler) verify(ctx context.Context) (wire.VerifiedState, error) {
	arrived, ok := schemas.FromContext(ctx)
	if !ok {
		return wire.VerifiedState{}, errors.New("the message has no envelope: its subscriber is not Watership's")
	}
	verified, err := h.verifier.Verify(arrived, arrived.Exchange, h.route.Queue)
	if verified.Mismatch {
		h.reportMismatch(h.route.Queue, h.route.Queue, arrived)
	}
	verified.State = ofRoute(h.route, verified.State)
	return verified, err
}

// publish publishes a handler's outgoing messages and waits until all are confirmed. Its
// first error concerns a message that cannot be published, which is a failure of the
// attempt; its second means that the result is unknown.
func (h *routeHandler) publish(ctx context.Context, parent wire.VerifiedState, produced []*message.Message) (why, err error) {
	if len(produced) == 0 {
		return nil, nil
	}
	messages, spans, why := h.outgoingMessages(ctx, produced, parent)
	if why != nil {
		return why, nil
	}
	limited, cancel := context.WithTimeout(ctx, output.ConfirmTimeout(h.queueLimiter.Timeout(), messages))
	defer cancel()
	results := h.outlet.PublishAll(limited, messages)
	h.endPublishSpans(spans, results)
	for i, err := range results {
		if err == nil {
			continue
		}
		blamed, unknown := output.ClassifyPublishError(ctx, fmt.Errorf("publishing outgoing message %d of %d: %w", i+1, len(produced), err))
		if unknown != nil {
			return nil, unknown
		}
		if why == nil {
			why = blamed
		}
	}
	return why, nil
}

// fail publishes a message after a failed attempt. If the delivery has ended, it
// publishes nothing: the broker delivers the message once more.
func (h *routeHandler) fail(ctx context.Context, t *admission.Ticket, took time.Duration, why error) error {
	if ended := context.Cause(ctx); ended != nil {
		return fmt.Errorf("the delivery ended before its attempt: %w", ended)
	}
	v := h.classify(h.route, *h.route.Policy, why, t.State, t.Envelope.Headers)
	if counts := t.Failed(v.failure); !counts {
		v.decision = v.waiting
	}
	return h.handleFailure(ctx, t, took, v)
}

func (h *routeHandler) handleFailure(ctx context.Context, t *admission.Ticket, took time.Duration, v verdict) error {
	if err := t.Leaves(ctx, v.decision); err != nil {
		return err
	}
	return h.messageFlow.handleFailure(ctx, t.VerifiedState, failedAttempt{queue: h.route.Queue, label: h.route.Queue, took: took, verdict: v})
}

// succeed publishes the `handled` event.
func (h *routeHandler) succeed(ctx context.Context, t *admission.Ticket, took time.Duration) error {
	t.Succeeded()
	h.metrics.ObserveHandled(h.route.Queue, took, t.State.Trace)
	return h.publishHandled(ctx, t.VerifiedState, h.route.Queue, took)
}
