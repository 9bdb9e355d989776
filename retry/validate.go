package retry

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

const maxPolicyDelays = 100 // each is a queue

// MaxAttempts is the most attempts of a policy. The history of a message is
// bounded, so this only stops mistakes.
const MaxAttempts = 10_000

// FieldError is one mistake in a policy or a breaker.
type FieldError struct {
	Field    string // such as delays, first or no_attempts[0].from; of a class classes.NAME.FIELD
	Value    string // empty where no single value is wrong
	Expected string
}

func (e *FieldError) Error() string {
	return strings.TrimSpace(e.Field+" "+e.Value) + ": expected " + e.Expected
}

// Validate returns every mistake in a policy, each as a FieldError: a
// delay that is not of whole milliseconds from 1 ms to MaxDelay, delays both
// listed and growing, a factor below 1, a jitter outside of 0 to 1, no attempts
// or more than MaxAttempts, more than 100 different delays, an invalid hour, date or time
// zone, windows that leave no time for attempts, and classes, windows, a spread or
// a time zone within classes.
func (p Policy) Validate() error {
	var errs []error
	for _, mistake := range mistakes(p) {
		errs = append(errs, mistake)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Classes)) {
		for _, mistake := range mistakesOfClass(p.Classes[name]) {
			mistake.Field = "classes." + name + "." + mistake.Field
			errs = append(errs, mistake)
		}
	}
	return errors.Join(errs...)
}

func mistakesOfClass(p Policy) []*FieldError {
	found := mistakes(p)
	for _, field := range []struct {
		name string
		set  bool
	}{{"classes", len(p.Classes) > 0}, {"no_attempts", len(p.NoAttempts) > 0}, {"spread", p.Spread != 0}, {"time_zone", p.TimeZone != ""}} {
		if field.set {
			found = append(found, &FieldError{Field: field.name, Expected: "none within a class"})
		}
	}
	return found
}

func mistakes(p Policy) []*FieldError {
	return append(delayMistakes(p), timingMistakes(p)...)
}

// delayMistakes checks the fields about the delays.
func delayMistakes(p Policy) []*FieldError {
	if p.First == 0 {
		return append(invalidDelays("delays", p.Delays), mistakesWithoutFirst(p)...)
	}
	found := append(invalidDelays("first", []time.Duration{p.First}), growthMistakes(p)...)
	if len(p.Delays) > 0 {
		found = append(found, &FieldError{Field: "delays", Expected: "none beside first"})
	}
	if p.Cap != 0 {
		found = append(found, invalidDelays("cap", []time.Duration{p.Cap})...)
	}
	if len(found) > 0 {
		return found
	}
	return invalidDelays("first", p.ownDelays())
}

// growthMistakes checks the fields that need First.
func growthMistakes(p Policy) []*FieldError {
	var found []*FieldError
	if p.Attempts < 1 || p.Attempts > MaxAttempts {
		found = append(found, &FieldError{"attempts", fmt.Sprint(p.Attempts), fmt.Sprint("1 to ", MaxAttempts)})
	}
	if p.Factor != 0 && (math.IsNaN(p.Factor) || math.IsInf(p.Factor, 0) || p.Factor < 1) {
		found = append(found, &FieldError{"factor", fmt.Sprint(p.Factor), "at least 1"})
	}
	if !(p.Jitter >= 0 && p.Jitter <= 1) {
		found = append(found, &FieldError{"jitter", fmt.Sprint(p.Jitter), "0 to 1"})
	}
	if p.Cap != 0 && p.Cap < p.First {
		found = append(found, &FieldError{"cap", p.Cap.String(), "at least first, " + p.First.String()})
	}
	return found
}

func mistakesWithoutFirst(p Policy) []*FieldError {
	var found []*FieldError
	for _, field := range []struct {
		name string
		set  bool
	}{{"factor", p.Factor != 0}, {"cap", p.Cap != 0}, {"jitter", p.Jitter != 0}, {"attempts", p.Attempts != 0}} {
		if field.set {
			found = append(found, &FieldError{Field: field.name, Expected: "none without first, the delay that grows"})
		}
	}
	return found
}

func invalidDelays(field string, delays []time.Duration) []*FieldError {
	if len(delays) > maxPolicyDelays {
		return []*FieldError{{Field: field, Expected: fmt.Sprintf(
			"at most %d different delays, since each has a queue; there are %d", maxPolicyDelays, len(delays))}}
	}
	var found []*FieldError
	for _, d := range delays {
		if d <= 0 || d > MaxDelay || d%time.Millisecond != 0 {
			found = append(found, &FieldError{field, d.String(), fmt.Sprintf("whole milliseconds between 1ms and %s", MaxDelay)})
		}
	}
	return found
}
