package pipeline

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/pipeline/internal/admission/placelog"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// OperatorDecision is the decision of an operator about a message that waits for its next
// attempt: not before a time, or none.
type OperatorDecision struct {
	EventID          string    // of the event that records it
	Cancel           bool      // no further attempt
	NotBefore        time.Time // of the next attempt; zero: at once
	Operator, Reason string
}

// FindDecision finds the newest decision about a message that was taken out of its delay
// queue; false if none exists.
type FindDecision func(ctx context.Context, waiting schemas.State) (OperatorDecision, bool, error)

// handleTaken carries out the decision about a message that RabbitMQ dead-lettered because
// an operator took it out of its delay queue. It waits while the decision cannot be read.
func (r *retrier) handleTaken(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	d, found, err := OperatorDecision{}, false, errNoDecisions
	if r.findDecision != nil {
		d, found, err = r.findDecision(ctx, state)
	}
	if err != nil {
		if r.warnings.Allow("decisions", r.now()) {
			r.logger.Error("an operator's decisions about waiting messages cannot be read; the messages wait", "pause", r.pause, "error", err)
		}
		state.Undecided = true
		return r.schedule(ctx, e, state, r.pause)
	}
	if state.Undecided, state.NotBefore = false, d.NotBefore; found {
		err = r.publishDecision(ctx, e, state, d)
		state.Delay = 0 // the delay of the policy is over
	}
	if err != nil || d.Cancel {
		if err == nil {
			r.withdraw(ctx, state)
		}
		return err
	}
	if found && d.NotBefore.After(r.now()) {
		r.tellPlaces(ctx, state, placelog.Postponement(state.Position, d.NotBefore))
	}
	return r.returnInTime(ctx, e, state)
}

// withdraw notifies the process that handles the messages of an ordered route that one of them does
// not come any more. Without that, the next ones of its key would wait for it for some minutes.
func (r *retrier) withdraw(ctx context.Context, state schemas.State) {
	r.tellPlaces(ctx, state, placelog.Withdrawal(state.Position))
}

// tellPlaces publishes what became of a message to the process with the order of its route, if it is
// ordered.
func (r *retrier) tellPlaces(ctx context.Context, state schemas.State, news amqp.Publishing) {
	if state.Position <= 0 {
		return
	}
	err := r.publisher.Publish(ctx, rabbit.Message{Exchange: r.topology.Direct(), RoutingKey: r.topology.Places(state.Queue), Publishing: news})
	var unordered *rabbit.UnroutableError // it has a position for another reason
	if err != nil && !errors.As(err, &unordered) {
		r.logger.Warn("the next messages of a key do not know that one was cancelled, given up or postponed", "queue", state.Queue, "fingerprint", state.Fingerprint, "error", err)
	}
}

func (r *retrier) publishDecision(ctx context.Context, e schemas.Envelope, state schemas.State, d OperatorDecision) error {
	state.EventID, state.Time, state.Delay = d.EventID, r.now(), max(0, d.NotBefore.Sub(r.now()))
	if d.Cancel {
		state.Failure = schemas.Failure{Type: string(schemas.Discarded), Message: reason.By(d.Operator, d.Reason)}
		return r.publishEvent(ctx, schemas.Discarded, e, state)
	}
	state.Audit.User, state.Audit.Reason = d.Operator, d.Reason
	return r.publishEvent(ctx, schemas.Rescheduled, e, state)
}

// returnInTime publishes a message to its queue, or to a delay queue until the time to which
// an operator has postponed it.
func (r *retrier) returnInTime(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	if left := state.NotBefore.Sub(r.now()); left > 0 {
		return r.schedule(ctx, e, state, retry.Step(left))
	}
	state.NotBefore = time.Time{}
	return r.returnToQueue(ctx, e, state)
}

// errNoDecisions is the error of a process without Config.Decisions.
var errNoDecisions = errors.New("this process has no store: run watership serve with the role due")
