package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// publisher publishes messages and returns once the broker has them safe.
type publisher interface {
	Publish(ctx context.Context, m rabbit.Message) error

	// PublishAll does not wait for one before the next, and keeps their order. It
	// returns an error for each, nil for those that are safe.
	PublishAll(ctx context.Context, messages []rabbit.Message) []error
}

// delayDeclarer makes sure that the delay queue of d exists.
type delayDeclarer interface {
	DeclareDelay(ctx context.Context, d time.Duration) error
}

// messageFlow are what handlers do with messages. Each makes the next copy durable
// before it returns, the harmless copy first: the event, then the message;
// the acknowledgement follows when the handler returns. A crash anywhere gives
// a duplicate and never a loss.
type messageFlow struct {
	queue        string // whose messages are handled
	topology     schemas.Topology
	verifier     *schemas.Verifier
	publisher    publisher
	frameMax     func() schemas.FrameMax // of the publisher's connection
	delays       delayDeclarer
	permanent    []time.Duration // that policies name, the shortest first
	taps         []transport.Tap
	now          func() time.Time
	sleep        func(ctx context.Context, d time.Duration) bool // false when ctx ends before
	newID        func() string
	random       func() float64 // for jitter, from 0 up to 1
	logger       *slog.Logger
	metrics      *metrics
	heldMessages *heldMessages
	warnings     *throttle

	queueLimiter *queueLimiter // queues of services
	delayLimiter *queueLimiter // delay queues
}

// failedAttempt is an attempt that failed.
type failedAttempt struct {
	queue string
	label string // of metrics
	took  time.Duration
	verdict
}

// handleFailure sends a message whose attempt failed to where its policy says.
func (f *messageFlow) handleFailure(ctx context.Context, before schemas.VerifiedState, a failedAttempt) error {
	decision := f.poisonWithoutRoom(a.decision, before.Envelope)
	f.metrics.observeFailure(a, decision.Action)
	state := before.State.Failed(f.now(), a.took, a.queue, a.failure)
	state.EventID = ""
	if state.Message == "" {
		state.Message = f.newID()
	}
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
	return f.schedule(ctx, before.Envelope, state, decision.Delay)
}

// poisonWithoutRoom: a message whose headers leave no room for ours cannot carry its
// attempts back to its queue, so it is not tried again.
func (f *messageFlow) poisonWithoutRoom(d retry.Decision, e schemas.Envelope) retry.Decision {
	if d.Action == retry.Retry && !f.frameMax().LeavesRoom(e) {
		return retry.Decision{Action: retry.Poison, Reason: "its headers leave no room for a state"}
	}
	return d
}

// publishEvent publishes one event of a message's life. Its id is given before the
// first publish, so that a redelivery is the same document.
func (f *messageFlow) publishEvent(ctx context.Context, action schemas.Action, e schemas.Envelope, state schemas.State) error {
	if state.EventID == "" {
		state.EventID = f.newID()
	}
	omitted := schemas.OmittedBody{Size: len(e.Body), In: schemas.BodyInPublished}
	if f.bodyIsTapped(action, e) {
		return f.publishEventWithoutBody(ctx, action, e, state, omitted)
	}
	copied := f.newMessageCopy(e, state, rabbit.Message{Exchange: f.topology.Events(), RoutingKey: string(action)})
	return f.hold(ctx, eventOperation(action), func() error { return copied.publish(ctx) })
}

func eventOperation(action schemas.Action) string {
	return fmt.Sprintf("publishing the %s event", action)
}

func (f *messageFlow) publishEventWithoutBody(ctx context.Context, action schemas.Action, e schemas.Envelope, state schemas.State, body schemas.OmittedBody) error {
	m := rabbit.Message{Exchange: f.topology.Events(), RoutingKey: string(action)}
	return f.hold(ctx, eventOperation(action), func() error {
		m.Publishing = f.frameMax().WrapWithoutBody(e, state, body)
		return f.publisher.Publish(ctx, m)
	})
}

// bodyIsTapped: events that come often leave out a body that the tap has kept.
func (f *messageFlow) bodyIsTapped(action schemas.Action, e schemas.Envelope) bool {
	if action != schemas.Handled && action != schemas.RetryScheduled {
		return false
	}
	return slices.ContainsFunc(f.taps, func(tap transport.Tap) bool { return tap.Copies(e.Exchange, e.RoutingKey) })
}

// schedule puts a message into the queue where all wait equally long. One that the broker
// does not take there as it must be is poison.
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

// publishDelayed publishes to the delay queue, or to another where that is silent or can
// have no queue: where there is none yet, one that policies name.
func (f *messageFlow) publishDelayed(ctx context.Context, e schemas.Envelope, state schemas.State, delay time.Duration) error {
	m := rabbit.Message{Exchange: f.topology.Direct(), Publishing: f.frameMax().Wrap(e, state)}
	err := f.publishToDelayQueue(ctx, m, delay)
	var undeclared *undeclaredError
	others := f.permanent
	switch {
	case errors.Is(err, errNotConfirmed):
		others = slices.Concat(others, retry.StandardDelays())
	case !errors.As(err, &undeclared):
		return err
	}
	other, found := alternativeDelay(others, delay)
	if !found {
		return err
	}
	if f.warnings.allows(f.topology.Delay(delay), f.now()) {
		f.logger.Error("messages wait for another time than they should", "queue", f.queue,
			"delay", delay, "waits", other, "error", err)
	}
	return f.publishToDelayQueue(ctx, m, other)
}

// alternativeDelay is the shortest delay that is longer than one, or else the longest.
func alternativeDelay(others []time.Duration, than time.Duration) (other time.Duration, found bool) {
	others = slices.DeleteFunc(slices.Sorted(slices.Values(others)), func(d time.Duration) bool { return d == than })
	if len(others) == 0 {
		return 0, false
	}
	i, _ := slices.BinarySearch(others, than)
	return others[min(i, len(others)-1)], true
}

// undeclaredError says that a delay has no queue, and can have none.
type undeclaredError struct {
	delay time.Duration
	err   error
}

func (e *undeclaredError) Error() string {
	return fmt.Sprintf("declaring the delay queue of %s: %v", e.delay, e.err)
}

func (e *undeclaredError) Unwrap() error { return e.err }

// publishToDelayQueue publishes to the queue of a delay, and declares it where it is not there.
func (f *messageFlow) publishToDelayQueue(ctx context.Context, m rabbit.Message, delay time.Duration) error {
	m.RoutingKey = f.topology.Delay(delay)
	return f.delayLimiter.publish(ctx, m.RoutingKey, func(ctx context.Context, by publisher) error {
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

// poison gives a message up. The id of its event is given here, since the
// poison handler may see the message twice.
func (f *messageFlow) poison(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	if state.Message == "" {
		state.Message = f.newID()
	}
	state.EventID, state.Delay = f.newID(), 0
	copied := f.newMessageCopy(e, state, rabbit.Message{Exchange: f.topology.Direct(), RoutingKey: f.topology.Poison()})
	return f.hold(ctx, "giving a message up", func() error { return copied.publish(ctx) })
}

// poisonUnreadable gives up a message with headers of ours that this version cannot read.
// It is kept with them; to wait for a newer version would hold up what follows.
func (f *messageFlow) poisonUnreadable(ctx context.Context, queue string, why error) error {
	arrived, _ := schemas.FromContext(ctx)
	state := schemas.State{Fingerprint: arrived.Fingerprint()}
	return f.poison(ctx, arrived, state.Failed(f.now(), 0, queue, failure(why)))
}

func (f *messageFlow) reportMismatch(label, queue string, arrived schemas.Envelope) {
	f.metrics.mismatches.WithLabelValues(label).Inc()
	f.logger.Error("a message carried a state for this queue that is not its own; took it for a new one",
		"queue", queue, "exchange", arrived.Exchange, "routing_key", arrived.RoutingKey)
}
