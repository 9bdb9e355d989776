package ordering

import (
	"context"
	"time"
)

// Attempts has what Repeat needs to know of a route.
type Attempts struct {
	Attempt    func() error         // calls the handler
	IsEarly    func(why error) bool // the message has to wait for earlier ones
	First      *time.Time           // of the first failure, which is set if it is zero
	Paused     func() (paused bool, changed <-chan struct{})
	Recovering func() bool // the route handles a few messages at once

	// Stands is called when the message has waited in the process for some time, with its latest
	// error and the time at which the wait ends, if none of its key is handled before. Nil: no call.
	Stands func(why error, until time.Time)
}

func (a *Attempts) stands(why error, until time.Time) {
	if a.Stands != nil {
		a.Stands(why, until)
	}
}

// Repeat calls the handler, again and again as long as it fails early and an earlier message has
// been handled in the meantime. Its outcome is the outcome of the latest wait, Alone without a wait.
func (t *Ticket) Repeat(ctx context.Context, a Attempts) (outcome Outcome, why error) {
	for {
		if !t.Begin(ctx) {
			return Stopped, nil
		}
		paused, changed := a.Paused()
		if t != nil && paused {
			t.End() // the route was paused while it waited
			return Stopped, nil
		}
		why = a.Attempt()
		t.End()
		if t == nil || why == nil || !a.IsEarly(why) {
			return Alone, why
		}
		if a.First.IsZero() {
			*a.First = t.line.now()
		}
		if outcome = Later; !a.Recovering() { // or it would occupy one of the few places
			outcome = t.Await(ctx, *a.First, changed, func(until time.Time) { a.stands(why, until) })
		}
		if outcome != Go {
			return outcome, why
		}
	}
}
