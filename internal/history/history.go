// Package history derives the outcome of a message from its events.
package history

import (
	"cmp"
	"math"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Outcome is the state of a failure after all events that concern it.
type Outcome int

// A failure has one of these outcomes. All but Open and Waiting resolve it.
const (
	Open        Outcome = iota
	Waiting             // not poisoned: the next attempt follows
	Handled             // the failed queue handled the message or a replay of it
	Discarded           // by an operator
	FailedAgain         // a replay was poisoned at the same queue, which is a failure with its own outcome
	Replayed            // to a queue whose consumer reports no `handled` events
)

// Resolved reports whether the failure needs no more action.
func (o Outcome) Resolved() bool { return o != Open && o != Waiting }

// followUp is a failure with the later events that concern it.
type followUp struct {
	failure   eventstore.EventSummary
	later     []eventstore.EventSummary // events of the message and its replays
	failures  map[string]bool           // event ids of the failure and the failures of its replays
	instances map[string]bool           // instance ids of the same failures
}

func newFollowUp(failure eventstore.EventSummary) *followUp {
	f := &followUp{failure: failure, failures: map[string]bool{}, instances: map[string]bool{}}
	f.extend(failure)
	return f
}

// extend adds a failure of a replay.
func (f *followUp) extend(failure eventstore.EventSummary) {
	f.failures[failure.EventID] = true
	if failure.Message != "" {
		f.instances[failure.Message] = true
	}
}

// resolution is the outcome of a failure.
type resolution struct {
	Outcome
	at int64 // sequence of the first event that resolved the failure; neverResolved: none did
}

const neverResolved = math.MaxInt64

// resolution applies the events in their order. reports says whether the consumer of a
// queue reports `handled` events.
func (f *followUp) resolution(reports func(queue string) bool) resolution {
	slices.SortFunc(f.later, func(a, b eventstore.EventSummary) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.EventID, b.EventID))
	})
	r, waits := resolution{Open, neverResolved}, f.failure.Action == schemas.RetryScheduled
	resolve := func(outcome Outcome, by eventstore.EventSummary) resolution {
		r.Outcome, r.at = outcome, min(r.at, by.Sequence)
		return r
	}
	for _, e := range f.later {
		sameQueue := e.Queue == f.failure.Queue
		switch {
		case e.Action == schemas.Handled && sameQueue:
			return resolve(Handled, e)
		case e.Action == schemas.Discarded && sameQueue && f.discards(e):
			return resolve(Discarded, e)
		case e.Action == schemas.Poisoned && sameQueue && e.Message == f.failure.Message:
			waits = false
		case e.Action == schemas.Poisoned && sameQueue:
			resolve(FailedAgain, e)
		case e.Action == schemas.Replayed && (sameQueue || e.Queue == "") && !f.failedIn(e) && !reports(f.failure.Queue):
			resolve(Replayed, e)
		}
	}
	if waits {
		r.Outcome = Waiting
	}
	return r
}

// failedIn reports whether the failure happened in the replay of a `replayed` event, which may
// be stored after it.
func (f *followUp) failedIn(replayed eventstore.EventSummary) bool {
	return replayed.Replay == f.failure.Replay && replayed.ReplayOf == f.failure.ReplayOf
}

// discards reports whether a `discarded` event refers to one of the failures, since
// other messages may have the same message id.
func (f *followUp) discards(e eventstore.EventSummary) bool {
	return f.instances[e.Message] || f.failures[e.ReplayOf]
}
