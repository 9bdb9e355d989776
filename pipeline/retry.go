package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/lasthop"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// retrier is the retry handler. It takes the dead letters of consumers in any
// language to a delay queue or to poison, and what has waited to the queue
// that failed and to no other.
type retrier struct {
	*steps
	hop      lasthop.Hop
	policyOf func(queue string) retry.Policy
	labels   *queueLabels
	retried  []string      // reasons of dead letters that are tried again
	pause    time.Duration // before another try at a queue that is full or gone
	grace    time.Duration // for which a queue may be gone
}

// handleDead takes a dead letter: event, delay queue or poison queue, acknowledgement.
func (r *retrier) handleDead(msg *message.Message) error {
	ctx := msg.Context()
	arrived, _ := schemas.FromContext(ctx)
	letter, death, dead := schemas.DeadLetter(arrived)
	if !dead {
		return r.poisonUnknown(ctx, arrived, "it reached the retry exchange without being dead-lettered: no x-death header")
	}
	if err := rabbit.CheckName(death.Queue); err != nil {
		return r.poisonUnknown(ctx, arrived, "its x-death header names no queue: "+err.Error())
	}
	label := r.labels.of(ctx, death.Queue)
	belief, err := parse(func() (schemas.Belief, error) { return schemas.Believe(letter, death.Queue) })
	if isFault(err) {
		return err
	}
	if err != nil {
		return r.poisonUnread(ctx, death.Queue, err)
	}
	if belief.Mismatch {
		r.reportMismatch(label, death.Queue, letter)
	}
	v := r.judge(r.policyOf(death.Queue), deathError(death, r.retried), belief.State)
	return r.failed(ctx, belief, attempted{queue: death.Queue, label: label, verdict: v})
}

// handleDue takes a message that has waited to its queue, then acknowledges.
func (r *retrier) handleDue(msg *message.Message) error {
	ctx := msg.Context()
	arrived, _ := schemas.FromContext(ctx)
	e, state, err := unwrap(arrived)
	if isFault(err) {
		return err
	}
	if err != nil {
		return r.poisonUnread(ctx, "", err)
	}
	if state.Version == 0 || state.Queue == "" {
		return r.poisonUnknown(ctx, arrived, "it was in the queue of due messages without a state of its own")
	}
	if fingerprint := e.Fingerprint(); fingerprint != state.Fingerprint {
		state.Failure.Message = fmt.Sprintf("it changed while it waited, or somebody put it into the queue of due messages: "+
			"its fingerprint was %s; it had failed with: %s", state.Fingerprint, state.Failure.Message)
		state.Fingerprint = fingerprint
		return r.poison(ctx, e, state)
	}
	return r.back(ctx, e, state)
}

// back is the last hop. Nobody is held up by a queue that is full or gone. What is no
// fault of the message, such as a right that our login lacks, is waited for.
func (r *retrier) back(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	missingSince := state.MissingSince
	state.MissingSince = time.Time{}
	err := r.hop.Deliver(ctx, e, state)
	var gone *rabbit.UnroutableError
	var full *rabbit.NackedError
	var refused *rabbit.RefusedError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("returning a message to queue %q: %w", state.Queue, err)
	case errors.As(err, &full):
		return r.wait(ctx, e, state, r.pause)
	case errors.As(err, &gone):
		if state.MissingSince = missingSince; missingSince.IsZero() {
			state.MissingSince = r.now()
		}
		if r.now().Before(state.MissingSince.Add(r.grace)) {
			return r.wait(ctx, e, state, r.pause)
		}
		return r.poisonUndelivered(ctx, e, state, err)
	case errors.As(err, &refused) && refused.CondemnsMessage():
		return r.poisonUndelivered(ctx, e, state, err)
	}
	if r.warnings.allows(state.Queue, r.now()) {
		r.logger.Error("messages cannot go back to a queue; they wait", "queue", state.Queue, "pause", r.pause, "error", err)
	}
	return r.wait(ctx, e, state, r.pause)
}

func (r *retrier) poisonUndelivered(ctx context.Context, e schemas.Envelope, state schemas.State, why error) error {
	state.Failure.Message = fmt.Sprintf("could not go back to queue %q: %v; it had failed with: %s",
		state.Queue, why, state.Failure.Message)
	return r.poison(ctx, e, state)
}

// poisonUnknown gives up what somebody put into a queue of ours by hand.
func (r *retrier) poisonUnknown(ctx context.Context, arrived schemas.Envelope, reason string) error {
	belief, err := schemas.Believe(arrived, "")
	if err != nil {
		return r.poisonUnread(ctx, "", err)
	}
	state := belief.State.Failed(r.now(), 0, "", failure(errors.New(reason)))
	return r.poison(ctx, belief.Envelope, state)
}
