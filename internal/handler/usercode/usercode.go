// Package usercode calls functions of users, which may panic, end their goroutine or never
// return.
package usercode

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/watershipmq/watership/retry"
)

// errGoexit is the error of a function that ended its goroutine, as FailNow of package
// testing does.
var errGoexit = errors.New("runtime.Goexit ended the goroutine")

// errTimeout is the error of a function that did not return in time.
var errTimeout = errors.New("it did not return")

// Goroutines run functions of users, one function at a time each. A goroutine whose function
// has returned runs others, since a new goroutine would first grow its stack, which takes
// longer than most of these functions. The zero value has none.
type Goroutines struct {
	mu     sync.Mutex // guards the fields below
	idle   []*goroutine
	closed bool
}

// goroutine runs the functions that it receives.
type goroutine struct {
	functions chan func()
	returned  chan struct{} // a token for each function that has returned; closed at the end of the goroutine
}

// Run calls f in its own goroutine: a panic and a runtime.Goexit end that call only
// and are returned as errors.
func (g *Goroutines) Run(f func() error) error {
	_, err := Call(g, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Call is Run for a function that returns a value.
func Call[T any](g *Goroutines, f func() (T, error)) (T, error) {
	in, r := start(g, f)
	_, reusable := <-in.returned
	g.release(in, reusable)
	return r.value, r.err
}

// CallWithin is Call with a time limit. A goroutine cannot be ended by another one, so f
// may run longer.
func CallWithin[T any](g *Goroutines, limit time.Duration, f func() (T, error)) (T, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	in, r := start(g, f)
	select {
	case _, reusable := <-in.returned:
		g.release(in, reusable)
		return r.value, r.err
	case <-timer.C:
		close(in.functions) // its end follows f
		var none T
		return none, fmt.Errorf("%w within %s", errTimeout, limit)
	}
}

// CallUntil is Call with a context that f has as well: it does not wait for f longer than a time
// after the end of ctx.
func CallUntil[T any](ctx context.Context, g *Goroutines, grace time.Duration, f func() (T, error)) (T, error) {
	in, r := start(g, f)
	select {
	case _, reusable := <-in.returned:
		g.release(in, reusable)
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case _, reusable := <-in.returned:
		g.release(in, reusable)
		return r.value, r.err
	case <-timer.C:
		close(in.functions) // its end follows f
		var none T
		return none, fmt.Errorf("%w within %s of the end of its context: %w", errTimeout, grace, context.Cause(ctx))
	}
}

// Recover calls f and returns a panic as an error. It is for functions that return and do
// not end their goroutine, which is the caller's.
func Recover[T any](f func() (T, error)) (value T, err error) {
	defer recoverAs(&err)
	return f()
}

// Aborted reports whether a function did not return by itself.
func Aborted(err error) bool {
	if err == nil {
		return false
	}
	var panicked *retry.PanicError
	return errors.As(err, &panicked) || errors.Is(err, errGoexit) || errors.Is(err, errTimeout)
}

// TimedOut reports whether CallWithin or CallUntil did not wait for the end of a function.
func TimedOut(err error) bool { return errors.Is(err, errTimeout) }

// Close ends the idle goroutines. The others end with their functions.
func (g *Goroutines) Close() {
	g.mu.Lock()
	idle := g.idle
	g.idle, g.closed = nil, true
	g.mu.Unlock()
	for _, in := range idle {
		close(in.functions)
		<-in.returned
	}
}

type result[T any] struct {
	value T
	err   error
}

// start calls f in an idle goroutine, or in a new one. The result is there once the goroutine
// has returned from f or has ended.
func start[T any](g *Goroutines, f func() (T, error)) (*goroutine, *result[T]) {
	in, r := g.acquire(), &result[T]{err: errGoexit}
	in.functions <- func() {
		defer recoverAs(&r.err)
		r.value, r.err = f()
	}
	return in, r
}

// acquire returns the goroutine that became idle last, whose stack is probably the largest:
// the garbage collector shrinks stacks.
func (g *Goroutines) acquire() *goroutine {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := len(g.idle) - 1; last >= 0 {
		in := g.idle[last]
		g.idle = g.idle[:last]
		return in
	}
	in := &goroutine{functions: make(chan func()), returned: make(chan struct{}, 1)}
	go in.run()
	return in
}

// release is called after a function, of which reusable says that it has not ended the
// goroutine.
func (g *Goroutines) release(in *goroutine, reusable bool) {
	if !reusable {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		close(in.functions)
		return
	}
	g.idle = append(g.idle, in)
}

func (in *goroutine) run() {
	defer close(in.returned)
	for f := range in.functions {
		f()
		in.returned <- struct{}{}
	}
}

func recoverAs(err *error) {
	if value := recover(); value != nil {
		*err = &retry.PanicError{Value: value, Stack: stack()}
	}
}

// stackLimit bounds a panic's stack. Deep recursion has frames without end.
const stackLimit = 8 << 10 // bytes

func stack() string {
	text := debug.Stack()
	return string(text[:min(len(text), stackLimit)])
}
