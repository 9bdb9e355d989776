package retry

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Breaker pauses a route while the service that its handler needs is unavailable:
// after how many failures, with which pauses between probes of the service, and
// how long a message may wait for it. The zero value has the default of each field.
//
// An outage is a property of many messages, a failure is a property of one. So
// the breaker opens when several different messages in a row fail, with no
// success between, either because the service could not be reached or all with
// the same error. Those messages get their attempts back. Messages with the same
// error do not open it while others succeed: not within 10 s of a success, unless
// 1000 in a row fail. A message that fails while others succeed has failed by
// itself: its policy decides.
type Breaker struct {
	// Messages is how many different messages must fail in a row. As many
	// succeed before the route handles as many at once as before. Zero: 5.
	// Negative: the breaker never opens.
	Messages int

	// Within is the time in which they fail. Zero: 5 min.
	Within time.Duration

	// First is the pause before the first probe. Each further pause is twice as
	// long. Zero: 1 s.
	First time.Duration

	// Cap is the longest pause. Zero: 1 min, or First where that is longer.
	Cap time.Duration

	// MaxWaits is how often a message may wait for an unavailable service
	// without losing an attempt, and MaxWait for how long, from the first time
	// on. Beyond either its failures count as attempts. A message waits without a
	// breaker, too, and whether the breaker is open or not. Zero: 1000 times and
	// 24 h. Negative: each failure counts.
	MaxWaits int
	MaxWait  time.Duration

	// MaxAlike is MaxWaits for messages that fail with the same error while the
	// service answers. Zero: 20. Negative: each failure counts.
	MaxAlike int
}

const (
	defaultMessages   = 5
	defaultWithin     = 5 * time.Minute
	defaultFirstPause = time.Second
	defaultPauseCap   = time.Minute
	defaultMaxWaits   = 1000
	defaultMaxWait    = 24 * time.Hour
	defaultMaxAlike   = 20

	maxMessages = 1000
)

// WithDefaults returns the breaker with the default of each field that is zero.
func (b Breaker) WithDefaults() Breaker {
	b.Messages = cmp.Or(b.Messages, defaultMessages)
	b.Within = cmp.Or(b.Within, defaultWithin)
	b.First = cmp.Or(b.First, defaultFirstPause)
	b.Cap = cmp.Or(b.Cap, max(defaultPauseCap, b.First))
	b.MaxWaits = cmp.Or(b.MaxWaits, defaultMaxWaits)
	b.MaxWait = cmp.Or(b.MaxWait, defaultMaxWait)
	b.MaxAlike = cmp.Or(b.MaxAlike, defaultMaxAlike)
	return b
}

// Or returns the breaker with the fields of other where its own are zero.
func (b Breaker) Or(other Breaker) Breaker {
	return Breaker{
		Messages: cmp.Or(b.Messages, other.Messages), Within: cmp.Or(b.Within, other.Within),
		First: cmp.Or(b.First, other.First), Cap: cmp.Or(b.Cap, other.Cap),
		MaxWaits: cmp.Or(b.MaxWaits, other.MaxWaits), MaxWait: cmp.Or(b.MaxWait, other.MaxWait),
		MaxAlike: cmp.Or(b.MaxAlike, other.MaxAlike),
	}
}

// Validate returns every mistake in a breaker, each as a FieldError:
// more than 1000 messages, a negative time other than MaxWait, a cap below first.
func (b Breaker) Validate() error {
	var errs []error
	if b.Messages > maxMessages {
		errs = append(errs, &FieldError{"messages", fmt.Sprint(b.Messages), fmt.Sprint("at most ", maxMessages)})
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"within", b.Within}, {"first", b.First}, {"cap", b.Cap}} {
		if field.value < 0 {
			errs = append(errs, &FieldError{field.name, field.value.String(), "a duration"})
		}
	}
	if full := b.WithDefaults(); full.Cap < full.First {
		errs = append(errs, &FieldError{"cap", b.Cap.String(), "at least first, " + full.First.String()})
	}
	return errors.Join(errs...)
}

// Pause returns the pause before the next probe of an open breaker, after a number
// of failed probes.
func (b Breaker) Pause(failedProbes int) time.Duration {
	b = b.WithDefaults()
	pause := b.First
	for range failedProbes {
		if pause >= b.Cap {
			break
		}
		pause *= 2
	}
	return min(pause, b.Cap)
}

// Exhausted reports whether a message has waited often enough, or long enough since
// the first time, that its failures count as attempts. since may be zero.
func (b Breaker) Exhausted(waits int, since, now time.Time) bool {
	b = b.WithDefaults()
	return waits >= b.MaxWaits || b.MaxWait < 0 || !since.IsZero() && now.Sub(since) >= b.MaxWait
}

// ExhaustedAlike is Exhausted, with MaxAlike, for messages that fail with the same error
// while the service answers.
func (b Breaker) ExhaustedAlike(waits int, since, now time.Time) bool {
	return waits >= b.WithDefaults().MaxAlike || b.Exhausted(waits, since, now)
}
