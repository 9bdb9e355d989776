package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/internal/admission/crashloop"
	"github.com/watershipmq/watership/pipeline/internal/admission/fairness"
	"github.com/watershipmq/watership/pipeline/internal/admission/ordering"
	"github.com/watershipmq/watership/pipeline/internal/admission/placelog"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// routeHandler calls the handler of one route.
//
//	success: outgoing messages, `handled` event, acknowledgement
//	failure: event, delay queue or poison queue, acknowledgement
type routeHandler struct {
	*messageFlow
	route        Route
	outlet       publisher // of outgoing messages
	breaker      *breaker.Breaker
	held         *pause.Switch
	gate         *fairness.Gate // nil: no fairness
	line         *ordering.Line // nil: no ordering
	places       *placelog.Log  // nil: not ordered
	crashGuard   *crashloop.Guard
	onHang       func(retry.Attempt) // may be nil
	runningCalls *call.Running
}

// subscriber returns the subscriber of the route. A handler that is still running after
// its time-out and hangGrace hangs.
func (h *routeHandler) subscriber(concurrent, single message.Subscriber, stopTimeout time.Duration) *breaker.Subscriber {
	route := breaker.Route{
		Queue: h.route.Queue, Concurrent: concurrent, Single: single, Concurrency: h.route.Concurrency + h.route.waitingRoom(), StopTimeout: stopTimeout,
		Requeue: func(ctx context.Context) { transport.Settle(ctx, false) },
		Record:  h.recordRoute, Paused: h.metrics.Paused.WithLabelValues(h.route.Queue), Held: h.held.State, Logger: h.logger,
	}
	if h.route.Timeout > 0 {
		route.HandlerTimeout = h.route.Timeout + hangGrace
	}
	if h.gate != nil {
		route.Stop = h.gate.Close
	}
	if h.line != nil {
		route.Stop = h.line.Close
	}
	return breaker.NewSubscriber(route, h.breaker)
}

// handle returns nil to acknowledge. An error means that no durable copy was confirmed,
// so that the message must be delivered once more.
func (h *routeHandler) handle(msg *message.Message) (err error) {
	ctx := msg.Context()
	defer func() { h.settle(msg, err) }()
	verified, err := h.arrived(ctx)
	var newer *schemas.NewerVersionError
	if errors.As(err, &newer) {
		return h.poisonUnreadable(ctx, h.route, newer)
	}
	if err != nil {
		return err
	}
	verified.State = h.withRefund(ctx, verified.State)
	if limit := h.route.Policy.MaxAttempts(); verified.State.Attempt >= limit {
		return h.poisonExhausted(ctx, verified, limit)
	}
	defer func() {
		if err != nil || ctx.Err() != nil {
			h.crashGuard.Survived(verified.State.Fingerprint)
		}
	}()
	if done, err := h.awaitTurn(ctx, msg, verified); done || err != nil {
		return err
	}
	epoch, started := h.breaker.Begin(), h.now()
	if why := h.stillRunning(ctx, &verified); why != nil {
		return h.fail(ctx, verified, epoch, 0, why)
	}
	end, done, err := h.guard(ctx, verified)
	if done || err != nil {
		return err
	}
	if !transport.AfterSettled(ctx, end) {
		defer end()
	}
	produced, why, stopped := h.attemptInOrder(ctx, msg, &verified, epoch)
	if stopped {
		h.crashGuard.Survived(verified.State.Fingerprint)
		msg.Nack()
		return nil
	}
	took := h.now().Sub(started)
	if why == nil {
		why, err = h.publish(ctx, verified, produced)
	}
	switch {
	case err != nil:
		return err
	case why != nil:
		return h.fail(ctx, verified, epoch, took, why)
	}
	h.recordSuccess(ctx, epoch)
	return h.succeed(ctx, verified, took)
}

// withRefund returns the state of a message without its latest attempt, if the breaker of
// the route or of its key refunds that.
func (h *routeHandler) withRefund(ctx context.Context, s schemas.State) schemas.State {
	a, found := arrivalOf(ctx)
	if !h.breaker.Refund(s) && !(found && a.ticket.Refund(s)) {
		return s
	}
	s.Attempt--
	s.Attempts = s.Attempts[:max(0, len(s.Attempts)-1)]
	return s.Waited(h.now())
}

// poisonExhausted publishes a message as poison that is delivered with all its attempts
// used: the policy allows fewer than before, or a copy of it reached the queue.
func (h *routeHandler) poisonExhausted(ctx context.Context, verified schemas.VerifiedState, maxAttempts int) error {
	h.metrics.Attempts.WithLabelValues(h.route.Queue, call.ResultLabel(retry.Poison)).Inc()
	state := verified.State
	state.Time, state.Duration = h.now(), 0
	state.Failure.Message = fmt.Sprintf("it had %d attempts, of which the policy allows %d; it had failed with: %s",
		state.Attempt, maxAttempts, state.Failure.Message)
	return h.poison(ctx, verified.Envelope, state)
}

// arrived returns the verified state of a message. With fairness, the subscriber has
// verified it.
func (h *routeHandler) arrived(ctx context.Context) (schemas.VerifiedState, error) {
	if a, found := arrivalOf(ctx); found {
		return a.verified, nil
	}
	return h.verify(ctx)
}

func (h *routeHandler) verify(ctx context.Context) (schemas.VerifiedState, error) {
	arrived, ok := schemas.FromContext(ctx)
	if !ok {
		return schemas.VerifiedState{}, errors.New("the message has no envelope: its subscriber is not Watership's")
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
func (h *routeHandler) publish(ctx context.Context, parent schemas.VerifiedState, produced []*message.Message) (why, err error) {
	if len(produced) == 0 {
		return nil, nil
	}
	messages, why := h.outgoingMessages(produced, parent)
	if why != nil {
		return why, nil
	}
	limited, cancel := context.WithTimeout(ctx, output.ConfirmTimeout(h.queueLimiter.Timeout(), messages))
	defer cancel()
	for i, err := range h.outlet.PublishAll(limited, messages) {
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
func (h *routeHandler) fail(ctx context.Context, before schemas.VerifiedState, epoch int, took time.Duration, why error) error {
	if ended := context.Cause(ctx); ended != nil {
		return fmt.Errorf("the delivery ended before its attempt: %w", ended)
	}
	if before.State.Message == "" {
		before.State.Message = h.newID()
	}
	before.State.Deliveries, before.State.Suspect = 0, false
	v := h.classify(h.route, *h.route.Policy, why, before.State, before.Envelope.Headers)
	switch h.recordFailure(ctx, epoch, before.State, v.failure) {
	case breaker.AttemptReturned:
		v.decision = v.waiting
	case breaker.WaitsReset:
		before.State.Waits, before.State.WaitsSince = 0, time.Time{}
	}
	return h.handleFailure(ctx, before, failedAttempt{queue: h.route.Queue, label: h.route.Queue, took: took, verdict: v})
}

// handleFailure is messageFlow.handleFailure, and keeps the place of the message in the
// order of its key.
func (h *routeHandler) handleFailure(ctx context.Context, before schemas.VerifiedState, a failedAttempt) error {
	if err := h.keepOrder(ctx, &before.State, a.decision); err != nil {
		return err
	}
	if ticket := ticketOf(ctx); ticket != nil {
		before.State.Position = ticket.Position()
	}
	if err := h.messageFlow.handleFailure(ctx, before, a); err != nil {
		return err
	}
	if a.decision.Action == retry.Poison {
		ticketOf(ctx).GivenUp()
	} else {
		ticketOf(ctx).Waits(a.decision.Delay)
	}
	return nil
}

// succeed publishes the `handled` event.
func (h *routeHandler) succeed(ctx context.Context, verified schemas.VerifiedState, took time.Duration) error {
	h.metrics.ObserveHandled(h.route.Queue, took)
	if err := h.publishHandled(ctx, verified, h.route.Queue, took); err != nil {
		return err
	}
	ticketOf(ctx).Handled()
	return nil
}
