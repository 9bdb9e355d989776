// Package retry decides about the next attempt of a message that failed: after
// which delay, or never.
//
//	policy := retry.Policy{Delays: []time.Duration{time.Second, time.Minute}}
//	decision := policy.Next(retry.Failure{Err: err, Attempt: 1}, rand.Float64)
//
// Handlers of package pipeline wrap their errors with After, Permanent, Class or
// Unavailable to choose the outcome.
//
// It only computes: it does no I/O and has no clock. To repeat a call within a process,
// use another package: Watership's retries are messages in delay queues.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultClass is the class of an error that names none.
const DefaultClass = "default"

// PermanentError marks an error that every further attempt would meet too.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent marks an error so that its message is poison at once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{err}
}

// IsPermanent reports whether an error is marked as Permanent.
func IsPermanent(err error) bool {
	var permanent *PermanentError
	return errors.As(err, &permanent)
}

// AfterError asks for a delay before the next attempt.
type AfterError struct {
	Delay   time.Duration
	AtLeast bool // the delay of the policy counts where it is longer
	Err     error
}

func (e *AfterError) Error() string { return e.Err.Error() }
func (e *AfterError) Unwrap() error { return e.Err }

// After asks for the next attempt after d instead of the policy's delay. The
// policy still says how many attempts there are. A delay has a queue, so d is
// rounded up to the next of StandardDelays, at most to the longest; a negative d
// counts as 0. After(d, nil) is nil.
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &AfterError{Delay: max(d, 0), Err: err}
}

// AtLeast is After, but a longer delay of the policy counts, as suits the
// Retry-After of a service that has too many requests. AtLeast(d, nil) is nil.
func AtLeast(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &AfterError{Delay: max(d, 0), AtLeast: true, Err: err}
}

// ClassError puts an error into a class with its own policy.
type ClassError struct {
	Class string
	Err   error
}

func (e *ClassError) Error() string { return e.Err.Error() }
func (e *ClassError) Unwrap() error { return e.Err }

// Class puts an error into a class; a policy may have other delays and another
// number of attempts for it. Class(name, nil) is nil.
func Class(name string, err error) error {
	if err == nil {
		return nil
	}
	return &ClassError{name, err}
}

// GroupError names the group of failures that an error belongs to.
type GroupError struct {
	Group string
	Err   error
}

func (e *GroupError) Error() string { return e.Err.Error() }
func (e *GroupError) Unwrap() error { return e.Err }

// Group names the group of failures that an error belongs to, such as "card expired". Without
// one, failures are of one group if their texts are alike but for numbers, names and other
// values. Group(name, nil) is nil.
func Group(name string, err error) error {
	if err == nil {
		return nil
	}
	return &GroupError{name, err}
}

// GroupOf returns the group that an error names, the outermost if there are several; "": none.
func GroupOf(err error) string {
	var group *GroupError
	if errors.As(err, &group) {
		return group.Group
	}
	return ""
}

// UnavailableError marks an error that is no fault of the message: the service
// that its handler needs is unavailable, for this message and for the next too.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// Unavailable marks an error so that its message waits without losing an attempt,
// for the delay of Deferral. When several different messages in a row have this
// error, their route pauses until a probe succeeds: see Breaker, which also bounds
// the wait of a message. If other messages of the route succeed in that time, the
// message loses an attempt all the same. Unavailable(nil) is nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &UnavailableError{err}
}

// MaxProgress is the greatest length of a progress in bytes.
const MaxProgress = 4 << 10

// ProgressError says how far an attempt got.
type ProgressError struct {
	Progress string
	Err      error
}

func (e *ProgressError) Error() string { return e.Err.Error() }
func (e *ProgressError) Unwrap() error { return e.Err }

// Progress says how far an attempt got, so that the next one resumes there: it finds the
// text in Attempt.Progress. An attempt that says nothing keeps the text, and an empty one
// removes it. A text of more than MaxProgress bytes has no effect, as the error of the
// attempt's event says. A replay begins without. Progress(text, nil) is nil.
func Progress(text string, err error) error {
	if err == nil {
		return nil
	}
	return &ProgressError{text, err}
}

// ProgressOf returns the outermost progress of an error.
func ProgressOf(err error) (text string, found bool) {
	var progress *ProgressError
	if errors.As(err, &progress) {
		return progress.Progress, true
	}
	return "", false
}

// PanicError is a handler's panic, which counts as a failure.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// ClassOf returns the class of an error, the outermost if there are several, or
// DefaultClass.
func ClassOf(err error) string {
	var class *ClassError
	if errors.As(err, &class) && class.Class != "" {
		return class.Class
	}
	return DefaultClass
}

// TypeOf returns the type of the innermost error of a chain, by which failures are
// grouped and searched; "timeout" for context.DeadlineExceeded. An error with a method
// ErrorType() string names its type itself, unless the method returns "".
func TypeOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	var named interface {
		error
		ErrorType() string
	}
	if errors.As(err, &named) && named.ErrorType() != "" {
		return named.ErrorType()
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%T", err)
		}
		err = inner
	}
}
