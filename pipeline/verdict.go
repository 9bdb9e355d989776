package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/pipeline/internal/admission"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// verdict is the classification of the error of an attempt.
type verdict struct {
	decision retry.Decision // if the attempt counts
	waiting  retry.Decision // if it does not
	failure  breaker.Failure
	progress *string // that the attempt reported; nil: none
}

// readTimeout bounds the calls of an error's methods.
const readTimeout = 10 * time.Second

// classify classifies an error, whose methods are code of users and may do anything. An
// error that cannot be read is a failure like any other. Rules of the route see the headers
// of the message.
func (f *messageFlow) classify(route Route, policy retry.Policy, why error, before schemas.State, headers amqp.Table) verdict {
	type reading struct {
		verdict
		failed retry.Failure
	}
	read := func(err error) (reading, error) {
		return usercode.CallWithin(f.goroutines, readTimeout, func() (reading, error) {
			rule, err := route.classifier.Classify(route.Queue, headers, err)
			failed := retry.Failure{Err: err, Attempt: before.Attempt + 1, First: before.FirstFailed, Now: f.now()}
			v := reading{verdict{failure: breaker.Failure{Failure: failure(err), Cause: causeOf(err)}}, failed}
			v.decision, v.waiting = policy.Count(failed, f.random), policy.Defer(failed, before.Waits, f.random)
			v.failure.Rule = rule
			if progress, reported := retry.ProgressOf(err); reported {
				v.progress = &progress
			}
			var after *retry.AfterError
			if v.failure.Cause == breaker.Unavailable && errors.As(err, &after) {
				v.failure.RequestedPause = after.Delay
			}
			return v, nil
		})
	}
	v, cannot := read(why)
	if cannot != nil {
		v, cannot = read(fmt.Errorf("reading the handler's error: %w", cannot))
	}
	if cannot != nil { // the panic itself cannot be read either
		v, _ = read(fmt.Errorf("the handler's error of type %T cannot be read", why))
	}
	v.decision = f.decide(route, v.failed, v.decision)
	return v.verdict
}

// decide returns the decision of Route.Decide about an attempt that counts. Without one, and if it fails, the decision of
// the policy stays.
func (f *messageFlow) decide(route Route, failed retry.Failure, byPolicy retry.Decision) retry.Decision {
	if route.Decide == nil {
		return byPolicy
	}
	d, err := usercode.CallWithin(f.goroutines, readTimeout, func() (retry.Decision, error) { return route.Decide(failed), nil })
	switch {
	case err != nil:
		f.logger.Error("Decide of a route failed, so its policy decides about the message", "queue", route.Queue, "error", err)
		return byPolicy
	case d.Action == 0:
		return byPolicy
	}
	d.Delay = min(max(d.Delay.Truncate(time.Millisecond), time.Millisecond), retry.MaxDelay)
	return d
}

// causeOf classifies an error of a handler, or of the delivery of its message.
func causeOf(err error) breaker.Cause {
	returned := errors.Is(err, errNacked) || errors.Is(err, admission.ErrEarlier) || errors.Is(err, admission.ErrRunning) && !errors.Is(err, context.DeadlineExceeded)
	if returned && !retry.IsPermanent(err) {
		return breaker.ReturnedByHandler
	}
	return breaker.CauseOf(err)
}

// failure returns the message, type, class, group and stack of an error.
func failure(err error) schemas.Failure {
	why := schemas.Failure{Message: err.Error(), Type: retry.TypeOf(err), Class: retry.ClassOf(err), Group: retry.GroupOf(err)}
	var panicked *retry.PanicError
	if errors.As(err, &panicked) {
		why.Stack = panicked.Stack
	}
	var reported *ReportError
	if errors.As(err, &reported) {
		why.Stack = reported.Stack
	}
	return why
}
