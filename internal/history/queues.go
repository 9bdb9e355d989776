package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// AtQueue is the state of a message at a queue. Of several copies of an equal message, the
// copy that needs most attention counts.
type AtQueue struct {
	Queue    string     `json:"queue"`
	State    QueueState `json:"state" enum:"failed,waiting,replaying,replayed,handled,discarded" doc:"failed: it was given up; waiting: for the next attempt; replaying: a replay was sent, and nothing is known of it yet; replayed: to a consumer that reports nothing"`
	Time     time.Time  `json:"time" doc:"Time of the event after which it is in the state"`
	Until    *time.Time `json:"until,omitempty" doc:"waiting: time of the next attempt"`
	Attempt  int        `json:"attempt,omitempty" doc:"Number of the latest attempt"`
	Failures []string   `json:"failures" nullable:"false" doc:"Ids of the events of its unresolved failures"`
}

// QueueState is the state of a message at a queue, by the outcomes of its failures.
type QueueState string

// The states, those that need most attention first.
const (
	QueueFailed    QueueState = "failed"
	QueueWaiting   QueueState = "waiting"
	QueueReplaying QueueState = "replaying"
	QueueReplayed  QueueState = "replayed"
	QueueHandled   QueueState = "handled"
	QueueDiscarded QueueState = "discarded"
)

// Queues returns the state of a message at each queue that its life names, sorted by name.
func (l Life) Queues(ctx context.Context, store Store, reporters Reporters) ([]AtQueue, error) {
	all, err := queuesOf(ctx, store, []Life{l}, reporters)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// queuesOf is Life.Queues for several messages.
func queuesOf(ctx context.Context, store Store, lives []Life, reporters Reporters) ([][]AtQueue, error) {
	var failures []eventstore.EventSummary
	for _, l := range lives {
		_, failed := l.latest()
		for _, e := range failed {
			failures = append(failures, eventstore.Summarize(e))
		}
	}
	outcomes, err := Outcomes(ctx, store, failures, reporters)
	if err != nil {
		return nil, err
	}
	all := make([][]AtQueue, len(lives))
	for i, l := range lives {
		latest, failed := l.latest()
		all[i] = l.atQueues(latest, failed, outcomes[:len(failed)])
		outcomes = outcomes[len(failed):]
	}
	return all, nil
}

// atQueues returns the states by the latest event of each queue, and by the failures with
// their outcomes.
func (l Life) atQueues(latest map[string]schemas.Event, failed []schemas.Event, outcomes []Outcome) []AtQueue {
	states := map[string]AtQueue{}
	for i, e := range failed {
		isSuperseded := slices.ContainsFunc(failed[i+1:], func(later schemas.Event) bool { return later.Queue == e.Queue })
		if outcomes[i] == FailedAgain && isSuperseded {
			continue
		}
		at, before := l.after(e, outcomes[i], latest[e.Queue]), states[e.Queue]
		failures := append(append([]string{}, before.Failures...), at.Failures...)
		if before.Queue != "" && attention(before.State) < attention(at.State) {
			at = before
		}
		at.Failures = failures
		states[e.Queue] = at
	}
	for queue, e := range latest {
		if _, hasFailed := states[queue]; !hasFailed {
			states[queue] = AtQueue{Queue: queue, State: QueueHandled, Time: e.Time, Attempt: e.Attempt, Failures: []string{}}
		}
	}
	all := make([]AtQueue, 0, len(states))
	for _, queue := range slices.Sorted(maps.Keys(states)) {
		all = append(all, states[queue])
	}
	return all
}

func attention(s QueueState) int {
	return slices.Index([]QueueState{QueueFailed, QueueWaiting, QueueReplaying, QueueReplayed, QueueDiscarded, QueueHandled}, s)
}

// latest returns the latest event of each queue at which something happened, and the latest
// failure of each copy of the message at each queue.
func (l Life) latest() (latest map[string]schemas.Event, failed []schemas.Event) {
	type instance struct{ queue, id string }
	latest = map[string]schemas.Event{}
	at := map[instance]int{}
	for _, e := range l.bySequence() {
		action := e.RecordedAction()
		if e.Queue == "" || action != schemas.Handled && action != schemas.RetryScheduled && action != schemas.Poisoned && action != schemas.Discarded {
			continue
		}
		latest[e.Queue] = e
		if action != schemas.RetryScheduled && action != schemas.Poisoned {
			continue
		}
		key := instance{e.Queue, cmp.Or(e.Message, e.EventID)}
		if i, known := at[key]; known {
			failed[i] = e
			continue
		}
		at[key] = len(failed)
		failed = append(failed, e)
	}
	return latest, failed
}

func (l Life) bySequence() []schemas.Event {
	events := slices.Clone(l.Events)
	slices.SortStableFunc(events, func(a, b schemas.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return events
}

// after returns the state of a copy of the message after a failure with an outcome. latest
// is the latest event at the queue.
func (l Life) after(failure schemas.Event, outcome Outcome, latest schemas.Event) AtQueue {
	at := AtQueue{Queue: failure.Queue, Time: failure.Time, Attempt: failure.Attempt}
	sent, isReplayed := l.replayOf(failure)
	switch {
	case outcome == Waiting:
		until := l.nextAttempt(failure)
		at.State, at.Until = QueueWaiting, &until
	case outcome == Open:
		at.State, at.Failures = QueueFailed, []string{failure.EventID}
		if isReplayed {
			at.State, at.Time = QueueReplaying, sent.Time
		}
	case outcome == FailedAgain:
		at.State = QueueFailed
	case outcome == Replayed && isReplayed:
		at.State, at.Time = QueueReplayed, sent.Time
	case outcome == Replayed:
		at.State = QueueReplayed
	case outcome == Discarded:
		at.State, at.Time = QueueDiscarded, latest.Time
	case outcome == Handled:
		at.State, at.Time, at.Attempt = QueueHandled, latest.Time, latest.Attempt
	}
	return at
}

// nextAttempt returns the time of the attempt after a failure, which an operator may have moved.
func (l Life) nextAttempt(failure schemas.Event) time.Time {
	next := failure
	for _, e := range l.bySequence() {
		if e.Sequence > failure.Sequence && e.RecordedAction() == schemas.Rescheduled && e.Queue == failure.Queue && e.Message == failure.Message {
			next = e
		}
	}
	return next.Time.Add(next.Delay)
}

// replayOf returns the latest replay of a failure, to its queue or to an exchange. Without a
// message id, equal messages have the same life, so the replay names its failure. The event
// of the replay in which a message failed may be stored after the failure.
func (l Life) replayOf(failure schemas.Event) (last schemas.Event, found bool) {
	for _, e := range l.bySequence() {
		hasFailedIn := e.Replay != "" && e.Replay == failure.Replay && e.ReplayOf == failure.ReplayOf
		isLater := e.Sequence > failure.Sequence && e.RecordedAction() == schemas.Replayed && !hasFailedIn
		isSameCopy := e.ReplayOf == failure.EventID || failure.Envelope.Properties.MessageID != ""
		if isLater && isSameCopy && (e.Queue == failure.Queue || e.Queue == "") {
			last, found = e, true
		}
	}
	return last, found
}
