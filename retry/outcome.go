// Package retry decides what happens to a message after an attempt: again and
// when, or never. It only computes: it does no I/O and has no clock.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultClass is the class of an error that names none.
const DefaultClass = "default"

// PermanentError says that no further attempt can succeed.
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

// IsPermanent says whether an error is marked as Permanent.
func IsPermanent(err error) bool {
	var permanent *PermanentError
	return errors.As(err, &permanent)
}

// AfterError says when the next attempt should be made.
type AfterError struct {
	Delay   time.Duration
	AtLeast bool // the delay of the policy counts where it is longer
	Err     error
}

func (e *AfterError) Error() string { return e.Err.Error() }
func (e *AfterError) Unwrap() error { return e.Err }

// After asks for the next attempt after d instead of the policy's delay. The
// policy still says how many attempts there are. A delay has a queue, so d is
// rounded up to the next of Ladder; longer than its longest counts as that,
// and a negative d as 0. After(d, nil) is nil.
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &AfterError{Delay: max(d, 0), Err: err}
}

// AtLeast is After where the delay of the policy counts if it is longer: what a
// service asks for that has too many requests. AtLeast(d, nil) is nil.
func AtLeast(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &AfterError{Delay: max(d, 0), AtLeast: true, Err: err}
}

// ClassError puts an error into a class with a policy of its own.
type ClassError struct {
	Class string
	Err   error
}

func (e *ClassError) Error() string { return e.Err.Error() }
func (e *ClassError) Unwrap() error { return e.Err }

// Class puts an error into a class; a policy may have other delays and another
// number of attempts for it.
// Class(name, nil) is nil.
func Class(name string, err error) error {
	if err == nil {
		return nil
	}
	return &ClassError{name, err}
}

// UnavailableError says that nothing is wrong with the message: the service that
// its handler needs is unavailable, for this message and for the next as well.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// Unavailable marks an error so that its message waits without losing an attempt,
// as WaitAgain says. Where several different messages in a row are told so, their
// route pauses until a probe succeeds: see Breaker, which also says how long a
// message may wait. A message that is told so while others of its route succeed
// loses an attempt all the same. Unavailable(nil) is nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &UnavailableError{err}
}

// PanicError is a handler's panic, which counts as a failure.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// ClassOf is the class that an error names, the outermost first, or DefaultClass.
func ClassOf(err error) string {
	var class *ClassError
	if errors.As(err, &class) && class.Class != "" {
		return class.Class
	}
	return DefaultClass
}

// TypeOf names the kind of an error for people and for searching: the type of
// the innermost error that is not one of this package's marks and not a bare
// text wrapped around another.
func TypeOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%T", err)
		}
		err = inner
	}
}
