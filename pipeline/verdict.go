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
	read := func(err error) (verdict, error) {
		return usercode.CallWithin(f.goroutines, readTimeout, func() (verdict, error) {
			rule, err := route.classifier.Classify(route.Queue, headers, err)
			failed := retry.Failure{Err: err, Attempt: before.Attempt + 1, First: before.FirstFailed, Now: f.now()}
			v := verdict{
				decision: policy.Count(failed, f.random), waiting: policy.Defer(failed, before.Waits, f.random),
				failure: breaker.Failure{Failure: failure(err), Cause: causeOf(err)},
			}
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
	return v
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
