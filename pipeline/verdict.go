package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// verdict is what follows from the error of an attempt.
type verdict struct {
	decision       retry.Decision // where the attempt counts
	waiting        retry.Decision // where it does not
	failure        schemas.Failure
	cause          cause
	requestedPause time.Duration // the service wants no request for so long; 0 where it does not say
}

// readTimeout is how long reading an error may take.
const readTimeout = 10 * time.Second

// classify reads an error, whose methods are code of users and may do anything. An
// error that cannot be read is a failure like any other.
func (f *messageFlow) classify(policy retry.Policy, why error, before schemas.State) verdict {
	read := func(err error) (verdict, error) {
		return recoverWithin(readTimeout, func() (verdict, error) {
			v := verdict{
				decision: policy.Count(err, before.Attempt+1, f.random), waiting: retry.Deferral(err, before.Waits),
				failure: failure(err), cause: causeOf(err),
			}
			var after *retry.AfterError
			if v.cause == unavailable && errors.As(err, &after) {
				v.requestedPause = after.Delay
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

// failure is what travels of an error.
func failure(err error) schemas.Failure {
	why := schemas.Failure{Message: err.Error(), Type: retry.TypeOf(err), Class: retry.ClassOf(err)}
	var panicked *retry.PanicError
	if errors.As(err, &panicked) {
		why.Stack = panicked.Stack
	}
	return why
}
