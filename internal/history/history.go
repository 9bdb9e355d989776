// Package history says what became of messages, by their events.
package history

import (
	"cmp"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// Outcome says what became of a failure.
type Outcome int

// A failure has one of these outcomes. All but Open and Waiting resolve it.
const (
	Open        Outcome = iota
	Waiting             // not given up: the next attempt follows
	Handled             // by the queue that failed: the message itself, or a replay of it
	Discarded           // an operator decided against the message
	FailedAgain         // a replay of it was given up at the same queue, which is a failure of its own
	Replayed            // at a queue whose consumer reports nothing
)

// Resolved says that nothing more is to be done about the failure.
func (o Outcome) Resolved() bool { return o != Open && o != Waiting }

// followUp is a failure and what followed from it.
type followUp struct {
	failure   schemas.Fact
	later     []schemas.Fact  // events of its message, and of what replays made of it
	failures  map[string]bool // ids of the failure and of those of its replays
	instances map[string]bool // instance ids of these
}

func newFollowUp(failure schemas.Fact) *followUp {
	l := &followUp{failure: failure, failures: map[string]bool{}, instances: map[string]bool{}}
	l.extend(failure)
	return l
}

// extend adds a failure of the same message.
func (f *followUp) extend(failure schemas.Fact) {
	f.failures[failure.EventID] = true
	if failure.Message != "" {
		f.instances[failure.Message] = true
	}
}

// outcome is what the events say in their order. reports says of a queue whether its
// consumer reports what it handled; nil: all do.
func (f *followUp) outcome(reports func(queue string) bool) Outcome {
	slices.SortFunc(f.later, func(a, b schemas.Fact) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.EventID, b.EventID))
	})
	outcome, waits := Open, f.failure.Action == schemas.RetryScheduled
	for _, e := range f.later {
		sameQueue := e.Queue == f.failure.Queue
		switch {
		case e.Action == schemas.Handled && sameQueue:
			return Handled
		case e.Action == schemas.Discarded && sameQueue && f.discards(e):
			return Discarded
		case e.Action == schemas.Poisoned && sameQueue && e.Message == f.failure.Message:
			waits = false
		case e.Action == schemas.Poisoned && sameQueue:
			outcome = FailedAgain
		case e.Action == schemas.Replayed && (sameQueue || e.Queue == "") && reports != nil && !reports(f.failure.Queue):
			outcome = Replayed
		}
	}
	if waits {
		return Waiting
	}
	return outcome
}

// discards says whether a `discarded` event is about one of the failures: of a
// message with an id there may be others.
func (f *followUp) discards(e schemas.Fact) bool {
	return f.instances[e.Message] || f.failures[e.ReplayOf]
}
