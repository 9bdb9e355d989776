package retry

import (
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	maxPolicyDelays = 100    // each is a queue
	maxAttempts     = 10_000 // the history of a message is bounded, so this only stops mistakes
)

// Validate says everything that is wrong with a policy: a delay that is not of
// whole milliseconds from 1 ms to MaxDelay, delays both listed and growing, a
// factor below 1, a jitter outside of 0 to 1, no attempts or more than 10,000,
// more than 100 different delays, and classes within classes.
func (p Policy) Validate() error {
	errs := []error{p.validate()}
	for name, class := range p.Classes {
		err := class.validate()
		if len(class.Classes) > 0 {
			err = errors.Join(err, errors.New("classes: a class has none of its own"))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("class %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (p Policy) validate() error {
	if p.First == 0 {
		return errors.Join(validDelays(p.Delays), p.withoutFirst())
	}
	errs := []error{validDelays([]time.Duration{p.First}), p.growth()}
	if len(p.Delays) > 0 {
		errs = append(errs, errors.New("delays and first: expected one of them"))
	}
	if p.Cap != 0 {
		errs = append(errs, validDelays([]time.Duration{p.Cap}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return validDelays(p.named())
}

// growth checks the fields that need First.
func (p Policy) growth() error {
	var errs []error
	if p.Attempts < 1 || p.Attempts > maxAttempts {
		errs = append(errs, fmt.Errorf("attempts %d: expected 1 to %d", p.Attempts, maxAttempts))
	}
	if p.Factor != 0 && (math.IsNaN(p.Factor) || math.IsInf(p.Factor, 0) || p.Factor < 1) {
		errs = append(errs, fmt.Errorf("factor %v: expected at least 1", p.Factor))
	}
	if !(p.Jitter >= 0 && p.Jitter <= 1) {
		errs = append(errs, fmt.Errorf("jitter %v: expected 0 to 1", p.Jitter))
	}
	if p.Cap != 0 && p.Cap < p.First {
		errs = append(errs, fmt.Errorf("cap %s: expected at least first, %s", p.Cap, p.First))
	}
	return errors.Join(errs...)
}

func (p Policy) withoutFirst() error {
	if p.Factor != 0 || p.Cap != 0 || p.Jitter != 0 || p.Attempts != 0 {
		return errors.New("factor, cap, jitter and attempts: expected only together with first")
	}
	return nil
}

func validDelays(delays []time.Duration) error {
	if len(delays) > maxPolicyDelays {
		return fmt.Errorf("%d delays: expected at most %d, since each has a queue", len(delays), maxPolicyDelays)
	}
	var errs []error
	for _, d := range delays {
		if d <= 0 || d > MaxDelay || d%time.Millisecond != 0 {
			errs = append(errs, fmt.Errorf("delay %s: expected whole milliseconds between 1ms and %s", d, MaxDelay))
		}
	}
	return errors.Join(errs...)
}
