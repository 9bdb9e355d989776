package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/tracing"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/deadletter"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// shortestRest is the rest of a delay for which a message waits once more.
const shortestRest = 50 * time.Millisecond

// retrier is the retry handler. It publishes the dead letters of consumers in any
// language, and the messages on which they report, to a delay queue or to the poison
// queue, and messages that have waited to the queue that failed and to no other.
type retrier struct {
	*messageFlow
	delivery     topology.DirectDelivery
	routeOf      func(queue string) Route
	labels       *call.QueueLabels
	deathChecker *deadletter.Checker
	findDecision FindDecision
	retried      []string      // reasons of dead letters that are tried again
	pause        time.Duration // before another try at a queue that is full or missing
	grace        time.Duration // for which a queue may be missing
}

// handleDead handles a dead letter: event, delay queue or poison queue, acknowledgement.
func (r *retrier) handleDead(msg *message.Message) error {
	ctx := msg.Context()
	arrived, _ := schemas.FromContext(ctx)
	letter, death, reason := r.deadLetter(ctx, arrived)
	if reason != "" {
		return r.poisonUnknown(ctx, arrived, reason)
	}
	label, route := r.labels.Of(ctx, death.Queue), r.routeOf(death.Queue)
	verified, err := r.verifier.VerifyDead(letter, death)
	if err != nil {
		return r.poisonUnreadable(ctx, route, err)
	}
	if verified.Mismatch {
		r.reportMismatch(label, death.Queue, letter)
	}
	verified.State = ofRoute(route, verified.State)
	var policy retry.Policy
	var why error
	policy, verified.State.Attempt, why = route.Headers.Apply(letter.Headers, *route.Policy, verified.State.Attempt, deathError(death, r.retried))
	v := r.classify(route, policy, cmp.Or(r.checkBody(route, letter), why), verified.State, letter.Headers)
	r.traceAttempt(ctx, &verified, death.Queue, 0, &v.failure.Failure)
	return r.handleFailure(ctx, verified, failedAttempt{queue: death.Queue, label: label, verdict: v})
}

// traceAttempt makes the span of an attempt of another consumer that has ended, or failed as why says, and adds it to the
// state. A duration that is not known is 0.
func (r *retrier) traceAttempt(ctx context.Context, tried *wire.VerifiedState, queue string, took time.Duration, why *schemas.Failure) {
	ended := r.now()
	_, span := r.tracer.Process(ctx, tracing.Step{
		Envelope: tried.Envelope, State: tried.State, Queue: queue, Attempt: tried.State.Attempt + 1, Began: ended.Add(-took),
	})
	tried.State.Trace = span.Traceparent(tried.State.Trace)
	span.End(ended, why)
}

// checkBody returns the error of the route's check of a failed message, which may panic.
func (r *retrier) checkBody(route Route, failed schemas.Envelope) error {
	return r.goroutines.Run(func() error { return route.check(failed) })
}

// deadLetter returns a dead letter as it was before it died, and its latest death; or
// else the reason for which it cannot go back to a queue.
func (r *retrier) deadLetter(ctx context.Context, arrived schemas.Envelope) (letter schemas.Envelope, death header.Death, reason string) {
	if arrived.Exchange != r.topology.Retry() {
		return arrived, death, fmt.Sprintf("it reached the queue of dead letters by exchange %q: expected %q, as the dead-letter exchange of a queue",
			arrived.Exchange, r.topology.Retry())
	}
	letter, death, dead := wire.DeadLetter(arrived, r.deathChecker.Follows(ctx))
	if !dead {
		return arrived, death, "it reached the retry exchange without being dead-lettered: no x-death header"
	}
	if death.Queue == r.topology.Report() {
		return arrived, death, fmt.Sprintf("it expired in queue %q before its report was read: "+
			"expected a report without the property expiration, which belongs into the report", death.Queue)
	}
	if err := rabbit.CheckName(death.Queue); err != nil {
		return arrived, death, "its x-death header names no queue: " + err.Error()
	}
	if r.topology.Owns(letter.Exchange) { // the state has the origin, if the state counts
		letter.Exchange, letter.RoutingKey = "", death.Queue
	}
	return letter, death, r.deathChecker.Implausible(ctx, death.Queue)
}

// handleDue publishes a message that has waited to its queue, then acknowledges.
func (r *retrier) handleDue(msg *message.Message) error {
	ctx := msg.Context()
	arrived, _ := schemas.FromContext(ctx)
	verified, found, err := r.verifier.VerifyDue(arrived)
	switch {
	case err != nil:
		return r.poisonUnreadable(ctx, Route{}, err)
	case !found:
		return r.poisonUnknown(ctx, arrived, "it was in the queue of due messages without a state of its own")
	}
	e, state := verified.Envelope, verified.State
	if verified.Mismatch {
		state.Failure.Message = fmt.Sprintf("it changed while it waited: its fingerprint was %s; it had failed with: %s",
			state.Fingerprint, state.Failure.Message)
		state.Fingerprint = r.verifier.Fingerprints.Of(e)
		return r.poison(ctx, e, state)
	}
	_, death, _ := wire.DeadLetter(arrived, nil)
	if state.Undecided || death.Reason == deathRejected {
		return r.handleTaken(ctx, e, state)
	}
	state.Elapsed += wire.DelaysOf(r.topology).Of(death.Queue)
	if rest := r.restOfDelay(state); rest > 0 {
		return r.schedule(ctx, e, state, retry.Step(rest))
	}
	return r.returnInTime(ctx, e, state)
}

// restOfDelay returns how long a message has still to wait whose delay has no queue
// for itself, and about which no operator has decided. The clock measures the time outside of
// delay queues; a clock that was set back makes it wait no longer than its delay.
func (r *retrier) restOfDelay(state schemas.State) time.Duration {
	rest := min(state.Time.Add(state.Delay).Sub(r.now()), state.Delay-state.Elapsed)
	if !state.NotBefore.IsZero() || rest < shortestRest {
		return 0
	}
	return rest
}

// returnToQueue publishes a message to its queue. A queue that is full, missing or does
// not confirm blocks no other message. An error that is no fault of the message, such as
// a missing right of the login, makes the message wait.
func (r *retrier) returnToQueue(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	missingSince := state.MissingSince
	state.MissingSince = time.Time{}
	err := r.queueLimiter.Publish(ctx, state.Queue, func(ctx context.Context, by publisher) error {
		delivery, returned := r.delivery, state
		delivery.Publisher, returned.Elapsed, returned.Sent = by, 0, r.now()
		return delivery.Deliver(ctx, e, returned)
	})
	if err == nil {
		began := state.Time // of the failure, by the clock of its process
		if now := r.now(); began.IsZero() || began.After(now) {
			began = now
		}
		r.tracer.Wait(ctx, tracing.Step{Envelope: e, State: state, Queue: state.Queue, Attempt: state.Attempt, Began: began}).End(r.now(), nil)
	}
	var gone *rabbit.UnroutableError
	var full *rabbit.NackedError
	var refused *rabbit.RefusedError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("returning a message to queue %q: %w", state.Queue, err)
	case errors.As(err, &full):
		return r.schedule(ctx, e, state, r.pause)
	case errors.As(err, &gone):
		if state.MissingSince = missingSince; missingSince.IsZero() {
			state.MissingSince = r.now()
		}
		if r.now().Before(state.MissingSince.Add(r.grace)) {
			return r.schedule(ctx, e, state, r.pause)
		}
		return r.poisonUndelivered(ctx, e, state, err)
	case errors.As(err, &refused) && refused.CausedByMessage():
		return r.poisonUndelivered(ctx, e, state, err)
	}
	if r.warnings.Allow(state.Queue, r.now()) {
		r.logger.Error("messages cannot be returned to a queue; they wait", "queue", state.Queue, "pause", r.pause, "error", err)
	}
	return r.schedule(ctx, e, state, r.pause)
}

func (r *retrier) poisonUndelivered(ctx context.Context, e schemas.Envelope, state schemas.State, why error) error {
	state.Failure.Message = fmt.Sprintf("could not be returned to queue %q: %v; it had failed with: %s",
		state.Queue, why, state.Failure.Message)
	if err := r.poison(ctx, e, state); err != nil {
		return err
	}
	r.withdraw(ctx, state)
	return nil
}

// poisonUnknown publishes a message as poison that arrived without a usable state or death.
func (r *retrier) poisonUnknown(ctx context.Context, arrived schemas.Envelope, reason string) error {
	verified := r.verifier.VerifyMark(arrived)
	state := verified.State.Failed(r.now(), 0, "", failure(errors.New(reason)))
	return r.poison(ctx, verified.Envelope, state)
}
