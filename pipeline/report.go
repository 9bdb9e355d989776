package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
	"github.com/watershipmq/watership/internal/wire/report"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// ReportError is the failure of a consumer that reported it.
type ReportError struct {
	Queue   string
	Outcome string // retry, poison or unavailable
	Text    string // the consumer's error; "": it named none
	Type    string
	Stack   string
}

func (e *ReportError) Error() string {
	return cmp.Or(e.Text, fmt.Sprintf("reported as %s by a consumer of queue %q", e.Outcome, e.Queue))
}

// ErrorType returns the type for retry.TypeOf.
func (e *ReportError) ErrorType() string { return cmp.Or(e.Type, "report") }

// handleReport handles the report of a consumer: event, delay queue or poison queue,
// acknowledgement.
func (r *retrier) handleReport(msg *message.Message) error {
	ctx := msg.Context()
	arrived, _ := schemas.FromContext(ctx)
	queue := arrived.RoutingKey
	if reason := r.unreportable(arrived); reason != "" {
		return r.poisonUnknown(ctx, withoutReport(arrived), reason)
	}
	told, malformed := report.Parse(arrived)
	label, route := r.labels.Of(ctx, queue), r.routeOf(queue)
	verified, err := r.verifier.VerifyReport(told.Message, queue)
	if err != nil {
		route.Queue = queue
		return r.poisonUnreadable(ctx, route, err)
	}
	if verified.Mismatch {
		r.reportMismatch(label, queue, told.Message)
	}
	verified.State = ofRoute(route, verified.State)
	verified.State.MissingSince, verified.State.NotBefore, verified.State.Undecided, verified.State.Elapsed = time.Time{}, time.Time{}, false, 0
	if told.Duration > 0 {
		verified.State.Started = startOf(verified, told.StartedAt)
	}
	if malformed == nil && told.Outcome == report.Handled {
		r.metrics.Attempts.WithLabelValues(label, "handled").Inc()
		r.traceAttempt(ctx, &verified, queue, told.Duration, nil)
		return r.publishHandled(ctx, verified, queue, told.Duration)
	}
	v := r.verdictOf(route, told, malformed, &verified.State)
	r.traceAttempt(ctx, &verified, queue, told.Duration, &v.failure.Failure)
	return r.handleFailure(ctx, verified, failedAttempt{queue: queue, label: label, took: told.Duration, verdict: v})
}

// unreportable returns the reason for which a message is no report on a queue; "" if it
// is one. The routing key has the name of the queue, since RabbitMQ can limit a login to
// some routing keys of an exchange. It does so for messages that are published to that
// exchange: neither for messages of exchanges that are bound to it, nor for dead letters.
func (r *retrier) unreportable(arrived schemas.Envelope) (reason string) {
	if arrived.Exchange != r.topology.Report() {
		return fmt.Sprintf("it reached the queue of reports by exchange %q: expected %q, to which consumers publish their reports",
			arrived.Exchange, r.topology.Report())
	}
	_, dead := arrived.Headers["x-death"]
	_, unreadable := arrived.Headers[amqpstream.UnreadableDeath]
	if dead || unreadable {
		return fmt.Sprintf("it reached exchange %q as a dead letter, or its consumer left x-death in the headers: "+
			"expected a report that a consumer published, with x-death in the report", arrived.Exchange)
	}
	if err := rabbit.CheckName(arrived.RoutingKey); err != nil {
		return "its report has a routing key that names no queue: " + err.Error()
	}
	if r.topology.Owns(arrived.RoutingKey) {
		return fmt.Sprintf("its report has the routing key %q, which is a queue of Watership's own", arrived.RoutingKey)
	}
	return ""
}

func withoutReport(e schemas.Envelope) schemas.Envelope {
	e.Headers = maps.Clone(e.Headers)
	delete(e.Headers, report.Header)
	return e
}

// verdictOf classifies the failure that a consumer reported. Headers of the message may
// change the number of attempts in before, as for dead letters.
func (r *retrier) verdictOf(route Route, told report.Report, malformed error, before *schemas.State) verdict {
	if malformed != nil {
		err := fmt.Errorf("its report cannot be read: %w", malformed)
		return r.classify(route, *route.Policy, retry.Permanent(&ReportError{Text: err.Error(), Type: "malformed report"}), *before, told.Message.Headers)
	}
	if fault := r.checkBody(route, told.Message); fault != nil {
		return r.classify(route, *route.Policy, fault, *before, told.Message.Headers)
	}
	before.Attempt += max(told.Attempts-1, 0)
	if before.FirstFailed.IsZero() && told.FailedAt.Before(r.now()) {
		before.FirstFailed = told.FailedAt
	}
	var why error = &ReportError{Queue: route.Queue, Outcome: string(told.Outcome), Text: told.Error, Type: told.ErrorType, Stack: told.Stack}
	if told.Class != "" {
		why = retry.Class(told.Class, why)
	}
	if told.ErrorGroup != "" {
		why = retry.Group(told.ErrorGroup, why)
	}
	var policy retry.Policy
	policy, before.Attempt, why = route.Headers.Apply(told.Message.Headers, *route.Policy, before.Attempt, why)
	if told.Delay != nil {
		why = retry.After(*told.Delay, why)
	}
	if told.Progress != nil {
		why = retry.Progress(*told.Progress, why)
	}
	if told.Outcome == report.Poison {
		why = retry.Permanent(why)
	}
	v := r.classify(route, policy, why, *before, told.Message.Headers)
	if told.Outcome == report.Unavailable && !route.Breaker.Exhausted(before.Waits, before.WaitsSince, r.now()) {
		v.decision = v.waiting
	}
	return v
}
