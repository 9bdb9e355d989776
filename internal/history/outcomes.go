package history

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Store reads the events of messages.
type Store interface {
	// Summaries reads the selected events in the order BySequence, without their
	// documents: those with one of the values in one of the fields, or all without
	// such filters.
	Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
}

// Outcomes returns the outcome of each failure, a thousand or so in one call.
//
// It reads `poisoned`, `replayed`, `handled` and `discarded` events of the same
// instances and replays only, so the outcome of a message does not cost more when an
// equal message was handled a million times.
func Outcomes(ctx context.Context, store Store, failures []eventstore.EventSummary, reporters Reporters) ([]Outcome, error) {
	found, err := resolutions(ctx, store, failures, 0, reporters)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(found))
	for i, r := range found {
		outcomes[i] = r.Outcome
	}
	return outcomes, nil
}

// OutcomesSince returns the outcome of each failure by the events up to a sequence, and by all of
// them. It reads them once. Every consumer counts as one that reports `handled` events.
func OutcomesSince(ctx context.Context, store Store, failures []eventstore.EventSummary, upTo int64) (before, now []Outcome, err error) {
	e := newEventIndex()
	if err := e.read(ctx, store, failures, 0); err != nil {
		return nil, nil, fmt.Errorf("looking up which failures are resolved: %w", err)
	}
	reports := func(string) bool { return true }
	for _, failure := range failures {
		before = append(before, e.followUpOf(failure, upTo).resolution(reports).Outcome)
		now = append(now, e.followUpOf(failure, math.MaxInt64).resolution(reports).Outcome)
	}
	return before, now, nil
}

// resolutions is Outcomes by the events up to a sequence (0: by all), with the events that resolved
// the failures.
func resolutions(ctx context.Context, store Store, failures []eventstore.EventSummary, upTo int64, reporters Reporters) ([]resolution, error) {
	e := newEventIndex()
	err := e.read(ctx, store, failures, upTo)
	reports := func(string) bool { return true }
	if err == nil && e.replayed && reporters != nil {
		var queues map[string]bool
		queues, err = reporters(ctx, queuesAt(failures))
		reports = func(queue string) bool { return queues[queue] }
	}
	if err != nil {
		return nil, fmt.Errorf("looking up which failures are resolved: %w", err)
	}
	found := make([]resolution, len(failures))
	for i, failure := range failures {
		found[i] = e.followUpOf(failure, math.MaxInt64).resolution(reports)
	}
	return found, nil
}

// queuesAt returns the queues of some failures, each once.
func queuesAt(failures []eventstore.EventSummary) []string {
	queues := map[string]bool{}
	for _, failure := range failures {
		queues[failure.Queue] = true
	}
	return slices.Sorted(maps.Keys(queues))
}

// eventIndex holds the events that decide the outcome of some failures.
type eventIndex struct {
	known         map[string]bool                      // by id
	byInstance    map[string][]eventstore.EventSummary // by instance id
	byFingerprint map[string][]eventstore.EventSummary // events of replays, for messages with an id
	byReplayOf    map[string][]eventstore.EventSummary // by the id of the replayed or discarded event
	replayed      bool                                 // there are `replayed` events
}

func newEventIndex() *eventIndex {
	return &eventIndex{
		known: map[string]bool{}, byInstance: map[string][]eventstore.EventSummary{},
		byFingerprint: map[string][]eventstore.EventSummary{}, byReplayOf: map[string][]eventstore.EventSummary{},
	}
}

// read loads the events of instances and replays, step by step from the failures on.
func (e *eventIndex) read(ctx context.Context, store Store, failures []eventstore.EventSummary, upTo int64) error {
	lookups := newLookups()
	var fingerprints []string
	for _, failure := range failures {
		if failure.Action == schemas.Poisoned && (upTo == 0 || failure.Sequence <= upTo) {
			e.add(failure, lookups)
		}
		lookups.add(failure.EventID, failure.Message)
		lookups.add(failure.ReplayOf, "")
		if failure.MessageID != "" { // else equal messages have the same fingerprint
			fingerprints = append(fingerprints, failure.Fingerprint)
		}
	}
	var err error
	if len(fingerprints) > 0 {
		ofReplays := kql.And{decidingActions(), kql.Exists{Field: kql.Pattern{"watership.replay.of"}}}
		err = e.collect(ctx, store, eventstore.Selection{Query: ofReplays, UpTo: upTo}, lookups, eventstore.FieldIn{Field: "watership.fingerprint", Values: fingerprints})
	}
	for err == nil && !lookups.done() {
		ids, instances := lookups.next()
		others := kql.And{decidingActions(), kql.Not{Node: e.someKnown()}}
		err = e.collect(ctx, store, eventstore.Selection{Query: others, UpTo: upTo}, lookups,
			eventstore.FieldIn{Field: "watership.replay.of", Values: ids}, eventstore.FieldIn{Field: "watership.message", Values: instances})
	}
	return err
}

// someKnown matches events that need not be read again.
func (e *eventIndex) someKnown() kql.Or {
	known := kql.Or{}
	for _, id := range slices.Sorted(maps.Keys(e.known)) {
		known = append(known, kql.FieldIs("event.id", id))
	}
	return known[:min(len(known), maxLookup)]
}

func (e *eventIndex) collect(ctx context.Context, store Store, selection eventstore.Selection, lookups *lookups, either ...eventstore.FieldIn) error {
	for summary, err := range store.Summaries(ctx, selection, either...) {
		if err != nil {
			return err
		}
		e.add(summary, lookups)
	}
	return nil
}

func (e *eventIndex) add(summary eventstore.EventSummary, lookups *lookups) {
	if e.known[summary.EventID] {
		return
	}
	e.known[summary.EventID] = true
	e.replayed = e.replayed || summary.Action == schemas.Replayed
	if summary.Message != "" {
		e.byInstance[summary.Message] = append(e.byInstance[summary.Message], summary)
	}
	if summary.ReplayOf != "" {
		e.byReplayOf[summary.ReplayOf] = append(e.byReplayOf[summary.ReplayOf], summary)
		e.byFingerprint[summary.Fingerprint] = append(e.byFingerprint[summary.Fingerprint], summary)
	}
	lookups.follow(summary)
}

// followUpOf collects the later events that concern a failure, up to a sequence.
func (e *eventIndex) followUpOf(failure eventstore.EventSummary, upTo int64) *followUp {
	f, seen := newFollowUp(failure), map[string]bool{failure.EventID: true}
	var follow func(events []eventstore.EventSummary)
	follow = func(events []eventstore.EventSummary) {
		for _, summary := range events {
			if seen[summary.EventID] || summary.Sequence > upTo {
				continue
			}
			seen[summary.EventID] = true
			if summary.Sequence > failure.Sequence {
				f.later = append(f.later, summary)
			}
			switch {
			case summary.Action == schemas.Replayed:
				follow(e.byReplayOf[summary.ReplayOf])
			case summary.Action == schemas.Poisoned && summary.Sequence > failure.Sequence:
				f.extend(summary)
				follow(e.byReplayOf[summary.EventID])
				follow(e.byInstance[summary.Message])
			}
		}
	}
	follow(e.byInstance[failure.Message])
	follow(e.byReplayOf[failure.EventID])
	follow(e.byReplayOf[failure.ReplayOf])
	if failure.MessageID != "" {
		follow(e.byFingerprint[failure.Fingerprint])
	}
	return f
}

// lookups are the event ids and instance ids whose events read loads next.
type lookups struct {
	seen           map[string]bool
	ids, instances []string
}

func newLookups() *lookups { return &lookups{seen: map[string]bool{"": true}} }

func (l *lookups) done() bool { return len(l.ids) == 0 && len(l.instances) == 0 }

// maxLookup is below the limit of values in one terms query.
const maxLookup = 10_000

func (l *lookups) next() (ids, instances []string) {
	ids, l.ids = split(l.ids)
	instances, l.instances = split(l.instances)
	return ids, instances
}

func split(names []string) (first, rest []string) {
	at := min(len(names), maxLookup)
	return names[:at], names[at:]
}

// follow adds the lookups after an event: the replayed event of a replay, the instance
// and the replays of a failure.
func (l *lookups) follow(summary eventstore.EventSummary) {
	switch summary.Action {
	case schemas.Replayed:
		l.add(summary.ReplayOf, "")
	case schemas.Poisoned:
		l.add(summary.EventID, summary.Message)
	}
}

func (l *lookups) add(id, instance string) {
	if !l.seen[id] {
		l.seen[id] = true
		l.ids = append(l.ids, id)
	}
	if key := "instance " + instance; instance != "" && !l.seen[key] {
		l.seen[key] = true
		l.instances = append(l.instances, instance)
	}
}

// decidingActions returns a query for the events that can change an outcome.
func decidingActions() kql.Node {
	return withActions(schemas.Handled, schemas.Discarded, schemas.Poisoned, schemas.Replayed)
}

// withActions returns a query for events with one of the actions, including those in
// quarantine.
func withActions(actions ...schemas.Action) kql.Node {
	var either kql.Or
	for _, action := range actions {
		either = append(either, kql.FieldIs("event.action", string(action)), kql.FieldIs("watership.quarantined_action", string(action)))
	}
	return either
}
