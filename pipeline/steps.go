package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/amqp"
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

// steps are what handlers do with messages. Each makes the next copy durable
// before it returns, the harmless copy first: the event, then the message;
// the acknowledgement follows when the handler returns. A crash anywhere gives
// a duplicate and never a loss.
type steps struct {
	topology  schemas.Topology
	publisher publisher
	delays    delayDeclarer
	taps      []amqp.Tap
	now       func() time.Time
	newID     func() string
	random    func() float64 // for jitter, from 0 up to 1
	logger    *slog.Logger
	metrics   *metrics
}

// attempted is an attempt that failed.
type attempted struct {
	queue string
	label string // of metrics
	took  time.Duration
	verdict
}

// failed sends a message whose attempt failed to where its policy says.
func (s *steps) failed(ctx context.Context, before schemas.Belief, a attempted) error {
	decision := reachable(a.decision, before.Envelope)
	s.metrics.failed(a, decision.Verb)
	state := before.State.Failed(s.now(), a.took, a.queue, a.failure)
	state.EventID = ""
	if state.Message == "" {
		state.Message = s.newID()
	}
	switch decision.Verb {
	case retry.Poison:
		return s.poison(ctx, before.Envelope, state)
	case retry.Wait: // no attempt is lost
		state.Attempt, state.Attempts = before.State.Attempt, before.State.Attempts
		state = state.Waited(state.Time)
	}
	state.Delay = decision.Delay
	if err := s.event(ctx, schemas.RetryScheduled, before.Envelope, state); err != nil {
		return err
	}
	return s.wait(ctx, before.Envelope, state, decision.Delay)
}

// reachable: a message whose headers leave no room for ours cannot carry its
// attempts back to its queue, so it is not tried again.
func reachable(d retry.Decision, e schemas.Envelope) retry.Decision {
	if d.Verb == retry.Again && !e.LeavesRoom() {
		return retry.Decision{Verb: retry.Poison, Reason: "its headers leave no room for a state"}
	}
	return d
}

// event publishes one event of a message's life. Its id is given before the
// first publish, so that a redelivery is the same document.
func (s *steps) event(ctx context.Context, action schemas.Action, e schemas.Envelope, state schemas.State) error {
	if state.EventID == "" {
		state.EventID = s.newID()
	}
	publishing := schemas.Wrap(e, state)
	if s.bodyIsElsewhere(action, e) {
		publishing = schemas.WrapWithoutBody(e, state)
	}
	err := s.publisher.Publish(ctx, rabbit.Message{
		Exchange: s.topology.Events(), RoutingKey: string(action), Publishing: publishing,
	})
	if err != nil {
		return fmt.Errorf("publishing the %s event: %w", action, err)
	}
	return nil
}

// bodyIsElsewhere: events that come often leave out a body that the tap has kept.
func (s *steps) bodyIsElsewhere(action schemas.Action, e schemas.Envelope) bool {
	if action != schemas.Handled && action != schemas.RetryScheduled {
		return false
	}
	return slices.ContainsFunc(s.taps, func(tap amqp.Tap) bool { return tap.Copies(e.Exchange, e.RoutingKey) })
}

// wait puts a message into the queue where all wait equally long.
func (s *steps) wait(ctx context.Context, e schemas.Envelope, state schemas.State, delay time.Duration) error {
	message := rabbit.Message{Exchange: s.topology.Direct(), RoutingKey: s.topology.Delay(delay), Publishing: schemas.Wrap(e, state)}
	err := s.publisher.Publish(ctx, message)
	var missing *rabbit.UnroutableError
	if errors.As(err, &missing) {
		if err := s.delays.DeclareDelay(ctx, delay); err != nil {
			return fmt.Errorf("declaring the delay queue of %s: %w", delay, err)
		}
		err = s.publisher.Publish(ctx, message)
	}
	if err != nil {
		return fmt.Errorf("scheduling a retry in %s: %w", delay, err)
	}
	return nil
}

// poison gives a message up. The id of its event is given here, since the
// poison handler may see the message twice.
func (s *steps) poison(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	if state.Message == "" {
		state.Message = s.newID()
	}
	state.EventID, state.Delay = s.newID(), 0
	err := s.publisher.Publish(ctx, rabbit.Message{
		Exchange: s.topology.Direct(), RoutingKey: s.topology.Poison(), Publishing: schemas.Wrap(e, state),
	})
	if err != nil {
		return fmt.Errorf("giving a message up: %w", err)
	}
	return nil
}

// poisonUnread gives up a message with headers of ours that this version cannot read.
// It is kept with them; to wait for a newer version would hold up what follows.
func (s *steps) poisonUnread(ctx context.Context, queue string, why error) error {
	arrived, _ := schemas.FromContext(ctx)
	state := schemas.State{Fingerprint: arrived.Fingerprint()}
	return s.poison(ctx, arrived, state.Failed(s.now(), 0, queue, failure(why)))
}

func (s *steps) reportMismatch(label, queue string, arrived schemas.Envelope) {
	s.metrics.mismatches.WithLabelValues(label).Inc()
	s.logger.Error("a message named this queue but its fingerprint is another's; took it for a new one",
		"queue", queue, "exchange", arrived.Exchange, "routing_key", arrived.RoutingKey)
}
