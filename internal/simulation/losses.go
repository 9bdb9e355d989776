package simulation

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// losses are what deletions and full queues may have taken, by the ids of messages. The mutex of the oracle guards the
// fields.
type losses struct {
	oracle    *oracle
	deletions []*deletion
	messages  map[string]bool // they may have no outcome
	events    map[string]bool // their outcome may have no event
	copies    map[string]bool // they may have no `published` event, so that their other events have no body
	bodiless  bool            // some events may have no body
}

func newLosses(o *oracle) losses {
	return losses{oracle: o, messages: map[string]bool{}, events: map[string]bool{}, copies: map[string]bool{}}
}

// deletes notes a deletion at its moment.
func (l *losses) deletes(d *deletion) {
	o := l.oracle
	recorded := l.recorded()
	o.mu.Lock()
	defer o.mu.Unlock()
	l.deletions = append(l.deletions, d)
	own := schemas.Topology{}
	switch d.queue {
	case own.Log():
		maps.Copy(l.events, d.held)
		if d.held[""] { // of some outcomes, which have no body
			for id := range o.finished {
				l.events[id] = l.events[id] || !recorded[id]
			}
		}
		for id := range d.held {
			if m := o.messages[id]; m != nil && o.world.endsProcess(id, m.queue) {
				o.finished[id] = d.at // it was known by its event alone
			}
		}
	case own.Index(), own.IndexLate():
		l.bodiless = true
		maps.Copy(l.copies, d.held)
	case own.Places(orderedQueue):
		displace(o)
	default:
		maps.Copy(l.messages, d.held)
	}
}

// recorded returns the messages of which the store has an outcome.
func (l *losses) recorded() map[string]bool {
	ids := map[string]bool{}
	for e, err := range l.oracle.world.store.Summaries(context.Background(), eventstore.Selection{}) {
		if err != nil {
			l.oracle.world.fail("reading the store: %v", err)
			break
		}
		if e.Action == schemas.Handled || e.Action == schemas.Poisoned || e.Action == schemas.Discarded {
			ids[e.MessageID] = true
		}
	}
	return ids
}

// restores notes the end of a deletion. Messages have passed the queue by.
func (l *losses) restores(d *deletion) {
	o := l.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	d.restored = time.Now()
	o.faults.add(span{from: d.at, to: d.restored})
	own := schemas.Topology{}
	for _, id := range o.sent {
		m := o.messages[id]
		switch passed := m.arrivesIn(d.at, d.restored); {
		case d.queue == m.queue && passed:
			l.messages[id] = true
		case d.queue == own.Index() && passed:
			l.copies[id] = true
		}
	}
	if d.queue != own.Retry() && (d.queue != own.Due() || o.world.profile.QueueType != "classic") {
		return
	}
	for _, c := range o.calls { // of which the dead letter may have passed the queue by
		if c.outcome == fails && !c.ended.IsZero() && c.ended.After(d.at.Add(-longestDelay)) {
			l.messages[c.id] = true
		}
	}
}

// longestDelay is longer than a message waits for another attempt.
const longestDelay = 15 * time.Second

// arrivesIn reports whether the broker may get the message in a time. A message that was not confirmed may be late.
func (m *message) arrivesIn(from, to time.Time) bool {
	return m.sent.Before(to) && (!m.confirmed || m.acknowledged.After(from))
}

// isLost reports whether a message may have no outcome. o.mu is held.
func (l *losses) isLost(id string) bool { return l.messages[id] }

// mayLack reports whether a message that a replay has sent, or its copy or event, may be lost with a queue: it was in the
// queue, or passed it by. o.mu is held.
func (l *losses) mayLack(s sending, id string) bool {
	o := l.oracle
	if l.messages[id] || l.events[id] || l.copies[id] {
		return true
	}
	own := schemas.Topology{}
	return slices.ContainsFunc(l.deletions, func(d *deletion) bool {
		switch d.queue {
		case o.messages[id].queue, own.Index():
			return d.at.Before(s.ended) && (d.restored.IsZero() || d.restored.After(s.began))
		case own.Log(): // events wait in it while the store has a fault
			return d.held[""] && d.at.After(s.began) && d.at.Before(s.ended.Add(faultLasts))
		}
		return false
	})
}

// losesCopies says that the broker refuses copies of messages, or that they pass their queue by.
func (l *losses) losesCopies() {
	o := l.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	l.bodiless = true
}

// hasBodiless reports whether the events of some messages may have no body.
func (l *losses) hasBodiless() bool {
	o := l.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	return l.bodiless
}

// isBodiless reports whether the events of a message may have no body.
func (l *losses) isBodiless(id string) bool {
	o := l.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	return l.copies[id]
}

// leftIn returns how many messages may stay in a queue. Messages of which a queue was deleted may be unrouted, and the
// places of messages that were deleted stay.
func (l *losses) leftIn(queue string) (n int) {
	o := l.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case queue == unrouted && len(l.deletions) > 0:
		return math.MaxInt
	case queue == (schemas.Topology{}).Places(orderedQueue):
		for id := range l.messages {
			if m := o.messages[id]; m != nil && m.queue == orderedQueue {
				n++
			}
		}
	}
	return n
}

// isOnlyFault reports whether no other fault is near a deletion.
func (l *losses) isOnlyFault(d *deletion) bool {
	o := l.oracle
	return !slices.ContainsFunc(o.plan.Faults, func(f Fault) bool {
		from := o.world.began.Add(settling + f.At)
		to := from.Add(f.For + longestDelay) // it may wait for a moment
		return f.Kind != QueueIsDeleted && f.Kind != ClockSteps && from.Before(d.restored.Add(pauseDelay)) && to.After(d.at)
	})
}

// checkDropped reports deletions of queues of Watership that have no event. Of a queue that is declared when it is needed,
// it is unknown whether it was there before. With another fault at that time the broker may not
// take the event, and only the log says so.
func (l *losses) checkDropped(dropped []span) {
	o := l.oracle
	own, apart := schemas.Topology{}, o.plan.mostApart()
	for _, d := range l.deletions {
		if !own.Owns(d.queue) || isOnDemand(d.queue) {
			continue
		}
		recorded := slices.ContainsFunc(dropped, func(s span) bool {
			return s.queue == d.queue && !s.from.Before(d.at.Add(-apart)) && !s.from.After(d.restored.Add(pauseDelay+apart))
		})
		lost := slices.ContainsFunc(l.deletions, func(other *deletion) bool {
			return other.queue == own.Log() && !other.at.Before(d.at) && other.held[""]
		})
		if !recorded && !lost && l.isOnlyFault(d) {
			o.world.fail("queue %s was deleted at %s, which has no event", d.queue, d.at.Sub(o.world.began))
		}
	}
}
