package history

import (
	"context"
	"fmt"
	"iter"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// Store is where events are read.
type Store interface {
	// Summaries reads the selected events in the order BySequence, without their
	// documents: those with one of the values in one of the fields, or all without
	// such filters.
	Summaries(ctx context.Context, selection schemas.Selection, either ...schemas.Among) iter.Seq2[schemas.Fact, error]
}

// Outcomes says what became of each of some failures, a thousand or so at once, by
// the events up to a sequence (0: by all). reports says of a queue whether its
// consumer reports what it handled; nil: all do.
//
// It reads only events that decide, so that equal messages which were handled a
// million times cost nothing.
func Outcomes(ctx context.Context, store Store, failures []schemas.Fact, upTo int64, reports func(queue string) bool) ([]Outcome, error) {
	e := newEventIndex()
	if err := e.read(ctx, store, failures, upTo); err != nil {
		return nil, fmt.Errorf("looking up which failures are resolved: %w", err)
	}
	outcomes := make([]Outcome, len(failures))
	for i, failure := range failures {
		outcomes[i] = e.followUpOf(failure).outcome(reports)
	}
	return outcomes, nil
}

// eventIndex are those that decide what became of some failures.
type eventIndex struct {
	known         map[string]bool           // by id
	byInstance    map[string][]schemas.Fact // by instance id
	byFingerprint map[string][]schemas.Fact // of messages with an id, what replays led to
	byReplayOf    map[string][]schemas.Fact // by the event that was replayed, or discarded
}

func newEventIndex() *eventIndex {
	return &eventIndex{map[string]bool{}, map[string][]schemas.Fact{}, map[string][]schemas.Fact{}, map[string][]schemas.Fact{}}
}

// read follows instances and replays from the failures on, step by step.
func (e *eventIndex) read(ctx context.Context, store Store, failures []schemas.Fact, upTo int64) error {
	lookups := newLookups()
	var fingerprints []string
	for _, failure := range failures {
		lookups.add(failure.EventID, failure.Message)
		lookups.add(failure.ReplayOf, "")
		if failure.MessageID != "" { // else equal messages have it too
			fingerprints = append(fingerprints, failure.Fingerprint)
		}
	}
	selection := schemas.Selection{Query: decidingActions(), UpTo: upTo}
	ofReplays := selection
	ofReplays.Query = query.And{selection.Query, query.Exists{Field: query.Pattern{"watership.replay.of"}}}
	var err error
	if len(fingerprints) > 0 {
		err = e.collect(ctx, store, ofReplays, lookups, schemas.Among{Field: "watership.fingerprint", Values: fingerprints})
	}
	for err == nil && !lookups.done() {
		ids, instances := lookups.next()
		err = e.collect(ctx, store, selection, lookups,
			schemas.Among{Field: "watership.replay.of", Values: ids}, schemas.Among{Field: "watership.message", Values: instances})
	}
	return err
}

func (e *eventIndex) collect(ctx context.Context, store Store, selection schemas.Selection, lookups *lookups, either ...schemas.Among) error {
	for fact, err := range store.Summaries(ctx, selection, either...) {
		if err != nil {
			return err
		}
		if e.known[fact.EventID] {
			continue
		}
		e.known[fact.EventID] = true
		if fact.Message != "" {
			e.byInstance[fact.Message] = append(e.byInstance[fact.Message], fact)
		}
		if fact.ReplayOf != "" {
			e.byReplayOf[fact.ReplayOf] = append(e.byReplayOf[fact.ReplayOf], fact)
			e.byFingerprint[fact.Fingerprint] = append(e.byFingerprint[fact.Fingerprint], fact)
		}
		lookups.follow(fact)
	}
	return nil
}

// followUp collects what followed from a failure.
func (e *eventIndex) followUpOf(failure schemas.Fact) *followUp {
	l, seen := newFollowUp(failure), map[string]bool{failure.EventID: true}
	var follow func(events []schemas.Fact)
	follow = func(events []schemas.Fact) {
		for _, fact := range events {
			if seen[fact.EventID] {
				continue
			}
			seen[fact.EventID] = true
			if fact.Sequence > failure.Sequence {
				l.later = append(l.later, fact)
			}
			switch {
			case fact.Action == schemas.Replayed:
				follow(e.byReplayOf[fact.ReplayOf])
			case fact.Action == schemas.Poisoned && fact.Sequence > failure.Sequence:
				l.extend(fact)
				follow(e.byReplayOf[fact.EventID])
				follow(e.byInstance[fact.Message])
			}
		}
	}
	follow(e.byInstance[failure.Message])
	follow(e.byReplayOf[failure.EventID])
	follow(e.byReplayOf[failure.ReplayOf])
	if failure.MessageID != "" {
		follow(e.byFingerprint[failure.Fingerprint])
	}
	return l
}

// lookups are the event ids and instance ids whose events are to be read next.
type lookups struct {
	seen           map[string]bool
	ids, instances []string
}

func newLookups() *lookups { return &lookups{seen: map[string]bool{"": true}} }

func (l *lookups) done() bool { return len(l.ids) == 0 && len(l.instances) == 0 }

// maxLookup is less than a store looks for at once.
const maxLookup = 10_000

func (l *lookups) next() (ids, instances []string) {
	ids, l.ids = split(l.ids)
	instances, l.instances = split(l.instances)
	return ids, instances
}

func split(names []string) (some, rest []string) {
	at := min(len(names), maxLookup)
	return names[:at], names[at:]
}

// follow goes on from a replay to the event that was replayed, and from a failure to
// what became of it.
func (l *lookups) follow(fact schemas.Fact) {
	switch fact.Action {
	case schemas.Replayed:
		l.add(fact.ReplayOf, "")
	case schemas.Poisoned:
		l.add(fact.EventID, fact.Message)
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

// decidingActions finds the events that decide, also those that the store refused to record
// as they were.
func decidingActions() query.Node {
	var either query.Or
	for _, action := range []schemas.Action{schemas.Handled, schemas.Discarded, schemas.Poisoned, schemas.Replayed} {
		either = append(either, hasAction("event.action", action), hasAction("watership.quarantined_action", action))
	}
	return either
}

func hasAction(field string, action schemas.Action) query.Node {
	return query.Is{Field: query.Pattern{field}, Value: query.Value{Pattern: query.Pattern{string(action)}, Quoted: true}}
}
