package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// business runs the handler of one route.
//
//	success: outgoing messages, `handled` event, acknowledgement
//	failure: event, delay queue or poison queue, acknowledgement
type business struct {
	*steps
	route   Route
	outlet  publisher // of outgoing messages
	breaker *breaker
	onHang  func(Attempt) // may be nil
	running running
}

// handle acknowledges by returning nil. An error means that no durable copy
// could be made, so that the message must come again.
func (b *business) handle(msg *message.Message) error {
	ctx := msg.Context()
	verified, err := b.verify(ctx)
	var newer *schemas.NewerVersionError
	if errors.As(err, &newer) {
		return b.poisonUnread(ctx, b.route.Queue, newer)
	}
	if err != nil {
		return err
	}
	verified.State = b.repaid(verified.State)
	if most := b.route.Policy.MaxAttempts(); verified.State.Attempt >= most {
		return b.usedUp(ctx, verified, most)
	}
	epoch, started := b.breaker.begin(), b.now()
	if why := b.stillRunning(ctx, &verified); why != nil {
		return b.fail(ctx, verified, epoch, 0, why)
	}
	produced, why := b.attempt(msg, verified)
	took := b.now().Sub(started)
	if why == nil {
		why, err = b.publish(ctx, verified, produced)
	}
	switch {
	case err != nil:
		return err
	case why != nil:
		return b.fail(ctx, verified, epoch, took, why)
	}
	b.breaker.success(epoch)
	return b.succeed(ctx, verified, took)
}

// repaid is the state of a message after it got its latest attempt back, where the
// breaker owes it one.
func (b *business) repaid(s schemas.State) schemas.State {
	if !b.breaker.repay(s) {
		return s
	}
	s.Attempt--
	s.Attempts = s.Attempts[:max(0, len(s.Attempts)-1)]
	return s.Waited(b.now())
}

// usedUp is for a message that comes though its attempts are used up: the policy allows
// fewer than it did, or a copy of it found a way back. It is not tried again.
func (b *business) usedUp(ctx context.Context, verified schemas.VerifiedState, most int) error {
	b.metrics.attempts.WithLabelValues(b.route.Queue, resultLabel(retry.Poison)).Inc()
	state := verified.State
	state.Time, state.Duration = b.now(), 0
	state.Failure.Message = fmt.Sprintf("it had %d attempts, of which the policy allows %d; it had failed with: %s",
		state.Attempt, most, state.Failure.Message)
	return b.poison(ctx, verified.Envelope, state)
}

func (b *business) verify(ctx context.Context) (schemas.VerifiedState, error) {
	arrived, ok := schemas.FromContext(ctx)
	if !ok {
		return schemas.VerifiedState{}, errors.New("the message has no envelope: its subscriber is not Watership's")
	}
	verified, err := parse(func() (schemas.VerifiedState, error) {
		return b.verifier.Verify(arrived, arrived.Exchange, b.route.Queue)
	})
	if verified.Mismatch {
		b.reportMismatch(b.route.Queue, b.route.Queue, arrived)
	}
	return verified, err
}

// publish sends a handler's outgoing messages and waits until all are
// confirmed. Its first error is that of a message that cannot be published,
// which is a failure of the attempt; its second says that nothing is known.
func (b *business) publish(ctx context.Context, parent schemas.VerifiedState, produced []*message.Message) (why, err error) {
	messages, why := b.allOutgoing(produced, parent)
	if why != nil {
		return why, nil
	}
	limited, cancel := context.WithTimeout(ctx, b.confirmTimeout(messages))
	defer cancel()
	for i, err := range b.outlet.PublishAll(limited, messages) {
		if err == nil {
			continue
		}
		blamed, unknown := undeliverable(ctx, fmt.Errorf("publishing outgoing message %d of %d: %w", i+1, len(produced), err))
		if unknown != nil {
			return nil, unknown
		}
		if why == nil {
			why = blamed
		}
	}
	return why, nil
}

// confirmTimeout is the time in which messages are to be confirmed, which leaves room
// for a slow broker: a second for each thousand of them, and for each MB.
func (b *business) confirmTimeout(messages []rabbit.Message) time.Duration {
	timeout := b.targets.timeout + time.Duration(len(messages))*time.Millisecond
	for _, m := range messages {
		timeout += time.Duration(len(m.Publishing.Body)) * time.Microsecond
	}
	return timeout
}

// undeliverable tells an outgoing message that the broker will not have from a
// broker that did not answer. A queue that is full takes no other message either.
func undeliverable(ctx context.Context, err error) (why, unknown error) {
	var full *rabbit.NackedError
	var gone *rabbit.UnroutableError
	var refused *rabbit.RefusedError
	switch {
	case errors.As(err, &full):
		return retry.Unavailable(err), nil
	case errors.As(err, &gone), errors.As(err, &refused):
		return err, nil
	case !over(ctx, err):
		return retry.Unavailable(err), nil
	}
	return nil, err
}

// fail does what follows a failed attempt. One whose delivery has ended says
// nothing: the message comes again.
func (b *business) fail(ctx context.Context, before schemas.VerifiedState, epoch int, took time.Duration, why error) error {
	if ended := context.Cause(ctx); ended != nil {
		return fmt.Errorf("the delivery ended before its attempt: %w", ended)
	}
	if before.State.Message == "" {
		before.State.Message = b.newID()
	}
	v := b.judge(*b.route.Policy, why, before.State)
	switch b.breaker.failed(epoch, before.State, v) {
	case attemptReturned:
		v.decision = v.waiting
	case ownFailure:
		before.State.Waits, before.State.WaitsSince = 0, time.Time{}
	}
	return b.failed(ctx, before, attempted{queue: b.route.Queue, label: b.route.Queue, took: took, verdict: v})
}

// succeed says that the handler has handled the message.
func (b *business) succeed(ctx context.Context, verified schemas.VerifiedState, took time.Duration) error {
	state := verified.State
	state.Queue, state.Time, state.Duration = b.route.Queue, b.now(), took
	state.EventID, state.Delay, state.Failure = "", 0, schemas.Failure{}
	state.Attempt++
	b.metrics.handled(b.route.Queue, took)
	return b.event(ctx, schemas.Handled, verified.Envelope, state)
}
