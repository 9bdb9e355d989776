// Package usercode calls functions of users, which may panic, end their goroutine or never
// return.
package usercode

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/watershipmq/watership/retry"
)

// errGoexit is the error of a function that ended its goroutine, as FailNow of package
// testing does.
var errGoexit = errors.New("runtime.Goexit ended the goroutine")

// errTimeout is the error of a function that did not return in time.
var errTimeout = errors.New("it did not return")

// Run calls f in a goroutine of its own: a panic and a runtime.Goexit end that goroutine
// only and are returned as errors.
func Run(f func() error) error {
	_, err := Call(func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Call is Run for a function that returns a value.
func Call[T any](f func() (T, error)) (T, error) {
	r := <-start(f)
	return r.value, r.err
}

// CallWithin is Call with a time limit. A goroutine cannot be ended by another one, so f
// may run longer.
func CallWithin[T any](limit time.Duration, f func() (T, error)) (T, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-start(f):
		return r.value, r.err
	case <-timer.C:
		var none T
		return none, fmt.Errorf("%w within %s", errTimeout, limit)
	}
}

// Aborted reports whether a function did not return by itself.
func Aborted(err error) bool {
	var panicked *retry.PanicError
	return errors.As(err, &panicked) || errors.Is(err, errGoexit) || errors.Is(err, errTimeout)
}

type result[T any] struct {
	value T
	err   error
}

func start[T any](f func() (T, error)) <-chan result[T] {
	ended := make(chan result[T], 1)
	go func() {
		r := result[T]{err: errGoexit}
		defer func() {
			if value := recover(); value != nil {
				r.err = &retry.PanicError{Value: value, Stack: stack()}
			}
			ended <- r
		}()
		r.value, r.err = f()
	}()
	return ended
}

// stackLimit bounds a panic's stack. Deep recursion has frames without end.
const stackLimit = 8 << 10 // bytes

func stack() string {
	text := debug.Stack()
	return string(text[:min(len(text), stackLimit)])
}
