package history

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// Job is a replay of which some messages were sent.
type Job struct {
	ID       string
	UpTo     int64 // highest sequence when the job was planned
	ToOrigin bool  // messages go to their original exchanges, which may route to several queues
	Since    int64 // only messages whose `replayed` events have a higher sequence; 0: all
}

// JobOutcomes are the outcomes of a job's messages, by the events of their consumers. A
// message is handled when at least one queue has handled it, including every queue
// that reported about it before the job; it has failed when one queue reports a
// failure or a retry after which it is not handled yet.
type JobOutcomes struct {
	Handled     int
	Failed      int
	Problems    []string // a few distinct errors
	NotReported []string // queues that reported about a message before, and not yet about its replay
	Pending     []string // event ids of the originals of a few messages about which no queue, or not each of these, has reported

	Classes map[string]int      // failed messages by the class of their failures
	Silent  map[Destination]int // messages about which no queue has reported at all, by where they were sent
	Last    int64               // highest sequence of the `replayed` events; 0: none is stored
}

const (
	maxProblems = 5
	maxPending  = 20
)

// EventStore reads whole events.
type EventStore interface {
	Store

	// Events yields the events of a selection. An error that is no *eventstore.Error
	// concerns one document, and the sequence continues.
	Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error]

	// Refresh makes all stored events visible to queries.
	Refresh(ctx context.Context) error
}

// sentMessage is a message that a job has sent.
type sentMessage struct {
	fingerprint string // "" if its `replayed` event is not in the store yet
	sequence    int64  // of this event
	to          Destination
	reported    map[string]report // by queue
	notReported map[string]bool   // queues that reported before, and not yet about the replay
}

// report is the report of the consumer of a queue about a message.
type report struct {
	handled        bool
	class, problem string // of the failure
}

// OutcomesOfJob reads the events of a job's messages.
func OutcomesOfJob(ctx context.Context, store EventStore, job Job) (JobOutcomes, error) {
	messages, err := sentMessages(ctx, store, job)
	if err == nil && job.ToOrigin {
		err = findNotReported(ctx, store, job.UpTo, messages)
	}
	if err != nil {
		return JobOutcomes{}, fmt.Errorf("looking up the outcomes of job %s: %w", job.ID, err)
	}
	return summarize(messages), nil
}

// sentMessages returns the messages of a job by the ids of the events that it replayed.
func sentMessages(ctx context.Context, store EventStore, job Job) (map[string]*sentMessage, error) {
	if err := store.Refresh(ctx); err != nil {
		return nil, err
	}
	messages := map[string]*sentMessage{}
	selection := eventstore.Selection{
		Query: kql.And{kql.FieldIs("watership.replay.job", job.ID), ReportedOr(schemas.Replayed)},
		Order: eventstore.BySequence, WithoutBody: true,
	}
	if job.Since > 0 {
		selection.After = eventstore.Cursor{Sequence: job.Since + 1} // a place before all events with this sequence
	}
	for e, err := range storeread.Readable(store.Events(ctx, selection)) {
		if err != nil {
			return nil, err
		}
		m := messages[e.ReplayOf]
		if m == nil {
			m = &sentMessage{reported: map[string]report{}, notReported: map[string]bool{}}
			messages[e.ReplayOf] = m
		}
		if e.RecordedAction() == schemas.Replayed {
			m.fingerprint, m.sequence, m.to = e.Fingerprint, e.Sequence, Destination{Queue: e.Queue}
			if e.Queue == "" {
				m.to = Destination{Exchange: e.Envelope.Exchange, RoutingKey: e.Envelope.RoutingKey}
			}
			continue
		}
		m.reported[e.Queue] = report{e.RecordedAction() == schemas.Handled, e.Failure.Class, e.Failure.Message}
	}
	return messages, nil
}

// reportActions are the actions that the consumer of a queue reports.
func reportActions() []schemas.Action {
	return []schemas.Action{schemas.Handled, schemas.RetryScheduled, schemas.Poisoned}
}

// ReportedOr returns a query for the events that consumers report, and for those with other actions.
func ReportedOr(others ...schemas.Action) kql.Node {
	return withActions(append(reportActions(), others...)...)
}

// findNotReported finds the queues that reported about the messages before the job was
// planned: an exchange may route to several queues with consumers of different speed.
func findNotReported(ctx context.Context, store Store, upTo int64, messages map[string]*sentMessage) error {
	byFingerprint := map[string][]*sentMessage{}
	for _, m := range messages {
		byFingerprint[m.fingerprint] = append(byFingerprint[m.fingerprint], m)
	}
	delete(byFingerprint, "")
	before := eventstore.Selection{Query: withActions(reportActions()...), UpTo: upTo}
	for fingerprints := range slices.Chunk(slices.Collect(maps.Keys(byFingerprint)), chunkSize) {
		for e, err := range store.Summaries(ctx, before, eventstore.FieldIn{Field: "watership.fingerprint", Values: fingerprints}) {
			if err != nil {
				return err
			}
			for _, m := range byFingerprint[e.Fingerprint] {
				if _, reported := m.reported[e.Queue]; !reported {
					m.notReported[e.Queue] = true
				}
			}
		}
	}
	return nil
}

func summarize(messages map[string]*sentMessage) JobOutcomes {
	all := JobOutcomes{Classes: map[string]int{}, Silent: map[Destination]int{}}
	problems, notReported := map[string]bool{}, map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(messages)) {
		m := messages[id]
		failure := m.failure()
		all.Last = max(all.Last, m.sequence)
		switch {
		case m.fingerprint == "": // not counted before its `replayed` event is stored
		case failure != nil:
			all.Failed++
			all.Classes[failure.class]++
			if len(problems) < maxProblems {
				problems[failure.problem] = true
			}
		case len(m.notReported) > 0 || len(m.reported) == 0:
			maps.Copy(notReported, m.notReported)
			if len(m.notReported)+len(m.reported) == 0 {
				all.Silent[m.to]++
			}
			if len(all.Pending) < maxPending {
				all.Pending = append(all.Pending, id)
			}
		default:
			all.Handled++
		}
	}
	all.Problems, all.NotReported = slices.Sorted(maps.Keys(problems)), slices.Sorted(maps.Keys(notReported))
	return all
}

// failure returns the failure of the first queue that has not handled the message; nil: none reports one.
func (m *sentMessage) failure() *report {
	for _, queue := range slices.Sorted(maps.Keys(m.reported)) {
		if r := m.reported[queue]; !r.handled {
			return &r
		}
	}
	return nil
}
