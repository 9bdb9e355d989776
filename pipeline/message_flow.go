package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/tracing"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/pipeline/internal/throttle"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// publisher publishes messages and returns once the broker has confirmed them.
type publisher interface {
	Publish(ctx context.Context, m rabbit.Message) error

	// PublishAll publishes without waiting for each confirm, and keeps the order. It
	// returns an error for each message, nil for the confirmed ones.
	PublishAll(ctx context.Context, messages []rabbit.Message) []error
}

// delayDeclarer declares the delay queue of d.
type delayDeclarer interface {
	DeclareDelay(ctx context.Context, d time.Duration) error
}

// messageFlow has the operations of handlers on messages: event, retry, poison. Each
// publishes the next copy durably before it returns, the event before the message; the
// acknowledgement follows when the handler returns. A crash at any point gives a
// duplicate and never a loss.
type messageFlow struct {
	queue        string // that delivered the messages
	topology     schemas.Topology
	verifier     *wire.Verifier
	publisher    publisher
	frameMax     func() wire.FrameMax // of the publisher's connection
	delays       delayDeclarer
	permanent    []time.Duration // delays of policies, the shortest first
	taps         []topology.Tap
	now          func() time.Time
	sleep        func(ctx context.Context, d time.Duration) error // of ctx, if that has ended then
	newID        func() string
	random       func() float64 // for jitter, from 0 up to 1
	logger       *slog.Logger
	metrics      *call.Metrics
	tracer       *tracing.Tracer
	heldMessages *output.HeldMessages
	warnings     *throttle.Warnings
	goroutines   *usercode.Goroutines
	streams      func(schemas.Envelope) schemas.MessageStream // nil: messages have none

	hook        func(context.Context, schemas.Event) error // for events; may be nil
	hookTimeout time.Duration

	queueLimiter *output.Limiter[publisher] // for the queues of services
	delayLimiter *output.Limiter[publisher] // for the delay queues
}

// failedAttempt is an attempt that failed.
type failedAttempt struct {
	queue string
	label string // of metrics
	took  time.Duration
	verdict
}

// handleFailure publishes a message after a failed attempt, as its policy decides.
func (f *messageFlow) handleFailure(ctx context.Context, before wire.VerifiedState, a failedAttempt) error {
	decision := f.replaceRetryWithoutRoom(a.decision, before.Envelope)
	f.metrics.ObserveFailure(a.label, a.took, decision.Action, before.State.Trace)
	state := before.State.Failed(f.now(), a.took, a.queue, a.failure.Failure)
	state.EventID = ""
	if state.Message == "" {
		state.Message = f.newID()
	}
	state = withProgress(state, a.progress)
	switch decision.Action {
	case retry.Poison:
		return f.poison(ctx, before.Envelope, state)
	case retry.Defer: // no attempt is lost
		state.Attempt, state.Attempts = before.State.Attempt, before.State.Attempts
		state = state.Waited(state.Time)
	}
	state.Delay = decision.Delay
	if err := f.publishEvent(ctx, schemas.RetryScheduled, before.Envelope, state); err != nil {
		return err
	}
	return f.schedule(ctx, before.Envelope, state, topology.DelayWithQueue(f.permanent, decision.Delay))
}

// startOf returns when the attempt at a message began, for the times in its events. It is
// zero if the time at which the message came to its queue is unknown, because another program
// dead-lettered it there or a process of an earlier version returned it.
func startOf(tried wire.VerifiedState, began time.Time) time.Time {
	_, moved := tried.Envelope.Headers["x-death"]
	if returned := tried.State.Queue != ""; moved || returned && tried.State.Sent.IsZero() {
		return time.Time{}
	}
	return began
}

// withProgress returns a state with the progress that an attempt reported, if any.
func withProgress(s schemas.State, progress *string) schemas.State {
	switch {
	case progress == nil:
	case len(*progress) > retry.MaxProgress:
		s.Failure.Message = fmt.Sprintf("its progress of %d bytes is dropped: at most %d fit; %s", len(*progress), retry.MaxProgress, s.Failure.Message)
	default:
		s.Progress = strings.ToValidUTF8(*progress, "?")
	}
	return s
}

// replaceRetryWithoutRoom replaces the retry of a message whose headers leave no room for a
// state: it cannot carry its attempts back to its queue.
func (f *messageFlow) replaceRetryWithoutRoom(d retry.Decision, e schemas.Envelope) retry.Decision {
	if d.Action == retry.Retry && !f.frameMax().LeavesRoom(e) {
		return retry.Decision{Action: retry.Poison, Reason: "its headers leave no room for a state"}
	}
	return d
}

// hold publishes until the broker has confirmed the message, which is held while it does not.
func (f *messageFlow) hold(ctx context.Context, operation string, publish func() error) error {
	return f.heldMessages.Publish(ctx, output.Operation{Name: operation, Queue: f.queue, Now: f.now, Sleep: f.sleep, Logger: f.logger}, publish)
}

// publishEvent publishes a lifecycle event. Its id is set before the first publish, so
// that a redelivery gives the same document.
func (f *messageFlow) publishEvent(ctx context.Context, action schemas.Action, e schemas.Envelope, state schemas.State) error {
	if state.EventID == "" {
		state.EventID = f.newID()
	}
	tapped := !state.Untapped && f.bodyIsTapped(action, e)
	state.Route, state.Park, state.Progress, state.Untapped = false, false, "", false // they concern only the way of the message
	omitted := wire.OmittedBody{Size: len(e.Body), In: schemas.BodyInPublished}
	publish := func() error { return f.publishEventWithoutBody(ctx, action, e, state, omitted) }
	if !tapped {
		copied := f.newMessageCopy(e, state, rabbit.Message{Exchange: f.topology.Events(), RoutingKey: string(action)})
		publish = func() error {
			return f.hold(ctx, eventOperation(action), func() error { return copied.publish(ctx) })
		}
	}
	if err := publish(); err != nil {
		return err
	}
	f.callHook(ctx, action, e, state)
	return nil
}

func eventOperation(action schemas.Action) string {
	return "publishing the " + string(action) + " event"
}

func (f *messageFlow) publishEventWithoutBody(ctx context.Context, action schemas.Action, e schemas.Envelope, state schemas.State, body wire.OmittedBody) error {
	m := rabbit.Message{Exchange: f.topology.Events(), RoutingKey: string(action)}
	return f.hold(ctx, eventOperation(action), func() error {
		m.Publishing = f.wrapWithoutBody(e, state, body)
		return f.publisher.Publish(ctx, m)
	})
}

// wrapWithoutBody omits a body, in which the indexer could have found the stream of the message.
func (f *messageFlow) wrapWithoutBody(e schemas.Envelope, state schemas.State, body wire.OmittedBody) amqp.Publishing {
	if f.streams != nil && len(e.Body) > 0 {
		state.Stream = f.streams(e)
	}
	return f.frameMax().WrapWithoutBody(e, state, body)
}

// bodyIsTapped reports whether an event may omit the body because the tap has recorded it.
// The last event of a message that no handler has handled keeps it: the copy of the tap may
// have been dropped or removed since.
func (f *messageFlow) bodyIsTapped(action schemas.Action, e schemas.Envelope) bool {
	last := action == schemas.Poisoned || action == schemas.Discarded
	return !last && slices.ContainsFunc(f.taps, func(tap topology.Tap) bool { return tap.Copies(e.Exchange, e.RoutingKey) })
}

// schedule publishes a message to the delay queue of delay, which may be a part of the delay
// of its state. A message that the broker
// refuses there becomes poison.
func (f *messageFlow) schedule(ctx context.Context, e schemas.Envelope, state schemas.State, delay time.Duration) error {
	var refusal error
	err := f.hold(ctx, fmt.Sprintf("scheduling a retry in %s", delay), func() error {
		err := f.publishDelayed(ctx, e, state, delay)
		if refusesMessage(err) {
			refusal, err = err, nil
		}
		return err
	})
	if err != nil || refusal == nil {
		return err
	}
	state.Failure.Message = fmt.Sprintf("could not wait for %s: %v; it had failed with: %s", delay, refusal, state.Failure.Message)
	return f.poison(ctx, e, state)
}

// publishDelayed publishes to the delay queue of delay, or to another one if that queue
// does not confirm, or does not exist and cannot be declared.
func (f *messageFlow) publishDelayed(ctx context.Context, e schemas.Envelope, state schemas.State, delay time.Duration) error {
	state.Sent, state.Started = time.Time{}, time.Time{} // of the attempt before
	m := rabbit.Message{Exchange: f.topology.Direct(), Publishing: f.frameMax().Wrap(e, state)}
	err := f.publishToDelayQueue(ctx, m, delay)
	var undeclared *undeclaredError
	others := f.permanent
	switch {
	case errors.Is(err, output.ErrNotConfirmed):
		others = slices.Concat(others, retry.StandardDelays())
	case !errors.As(err, &undeclared):
		return err
	}
	other, found := topology.AlternativeDelay(others, delay)
	if !found {
		return err
	}
	if f.warnings.Allow(wire.DelaysOf(f.topology).Queue(delay), f.now()) {
		f.logger.Error("messages wait for another delay than their policy sets", "queue", f.queue,
			"delay", delay, "waits", other, "error", err)
	}
	return f.publishToDelayQueue(ctx, m, other)
}

// undeclaredError is returned if the queue of a delay cannot be declared.
type undeclaredError struct {
	delay time.Duration
	err   error
}

func (e *undeclaredError) Error() string {
	return fmt.Sprintf("declaring the delay queue of %s: %v", e.delay, e.err)
}

func (e *undeclaredError) Unwrap() error { return e.err }

// publishToDelayQueue publishes to the queue of a delay, and declares the queue if it
// does not exist.
func (f *messageFlow) publishToDelayQueue(ctx context.Context, m rabbit.Message, delay time.Duration) error {
	m.RoutingKey = wire.DelaysOf(f.topology).Queue(delay)
	return f.delayLimiter.Publish(ctx, m.RoutingKey, func(ctx context.Context, by publisher) error {
		err := by.Publish(ctx, m)
		var missing *rabbit.UnroutableError
		if !errors.As(err, &missing) {
			return err
		}
		if err := f.delays.DeclareDelay(ctx, delay); err != nil {
			return &undeclaredError{delay, err}
		}
		return by.Publish(ctx, m)
	})
}

// poison publishes a message to the poison queue. The id of its event is set here, since
// the poison handler may get the message twice.
func (f *messageFlow) poison(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	if state.Message == "" {
		state.Message = f.newID()
	}
	state.EventID, state.Delay, state.Elapsed, state.Position = f.newID(), 0, 0, 0
	copied := f.newMessageCopy(e, state, rabbit.Message{Exchange: f.topology.Direct(), RoutingKey: f.topology.Poison()})
	span := f.tracer.Poison(ctx, tracing.Step{Envelope: e, State: state, Queue: state.Queue, Attempt: state.Attempt, Began: f.now()})
	err := f.hold(ctx, "publishing a message to the poison queue", func() error { return copied.publish(ctx) })
	span.End(f.now(), &state.Failure)
	if err != nil {
		return err
	}
	f.logger.Warn("a message is poison", "queue", state.Queue, "attempts", state.Attempt,
		"message", state.Message, "fingerprint", state.Fingerprint, "error", state.Failure.Message)
	f.callHook(ctx, schemas.Poisoned, e, state)
	return nil
}

// callHook calls the hook for events, which cannot delay the message for longer than its
// time-out.
func (f *messageFlow) callHook(ctx context.Context, action schemas.Action, e schemas.Envelope, state schemas.State) {
	if f.hook == nil {
		return
	}
	event := schemas.Event{ // the message itself may still be published
		State: state, Action: action, TimeSource: wire.TimeOfEvent, Envelope: e.Clone(), BodySize: len(e.Body), BodyIn: schemas.BodyHere,
	}
	ctx, cancel := context.WithTimeout(ctx, f.hookTimeout)
	defer cancel()
	_, err := usercode.CallWithin(f.goroutines, f.hookTimeout+hangGrace, func() (struct{}, error) { return struct{}{}, f.hook(ctx, event) })
	if err != nil {
		f.logger.Error("the hook for events failed", "action", action, "event", state.EventID, "error", err)
	}
}

// poisonUnreadable publishes a message as poison whose Watership headers this version
// cannot read. The headers stay on it; waiting for a newer version would block the queue.
func (f *messageFlow) poisonUnreadable(ctx context.Context, route Route, why error) error {
	arrived, _ := schemas.FromContext(ctx)
	state := ofRoute(route, schemas.State{Fingerprint: f.verifier.Fingerprints.Of(arrived)})
	return f.poison(ctx, arrived, state.Failed(f.now(), 0, route.Queue, failure(why)))
}

// ofRoute returns the state with which a message of a route arrived, with all that the
// processes that move it further need to know of the route, and without the time of an attempt:
// this delivery has had none.
func ofRoute(route Route, s schemas.State) schemas.State {
	s.Route, s.Park = route.Handler != nil, route.Park
	s.Started, s.Receiver, s.Answer = time.Time{}, "", ""
	return s
}

// publishHandled publishes the `handled` event.
func (f *messageFlow) publishHandled(ctx context.Context, verified wire.VerifiedState, queue string, took time.Duration) error {
	state := verified.State
	state.Queue, state.Time, state.Duration = queue, f.now(), took
	state.EventID, state.Delay, state.Failure, state.Deliveries, state.Suspect = "", 0, schemas.Failure{}, 0, false
	state.Attempt++
	return f.publishEvent(ctx, schemas.Handled, verified.Envelope, state)
}

func (f *messageFlow) reportMismatch(label, queue string, arrived schemas.Envelope) {
	f.metrics.Mismatches.WithLabelValues(label).Inc()
	f.logger.Error("a message has the state of another message; handling it as a new one",
		"queue", queue, "exchange", arrived.Exchange, "routing_key", arrived.RoutingKey)
}
