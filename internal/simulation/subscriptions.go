package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// queryOf returns the query of the subscription to a target, and the actions of the events that it
// delivers.
func queryOf(target string) (query string, actions []schemas.Action) {
	if target == slowQueue {
		return "", []schemas.Action{schemas.Published}
	}
	return "event.action: (handled or poisoned)", []schemas.Action{schemas.Handled, schemas.Poisoned}
}

// receivers are the targets of the subscriptions of a run.
type receivers struct {
	world *world
	all   []*receiver

	mu   sync.Mutex // guards held
	held []span     // with names of subscriptions
}

// start subscribes the receivers, and runs them until ctx ends. wait returns when they have ended.
func (r *receivers) start(ctx context.Context, operator *operator) (wait func()) {
	var running sync.WaitGroup
	slow, refusing := newReceiver(r.world, slowQueue), newReceiver(r.world, refusingTarget)
	offset := time.Duration(r.world.nextOffset())
	running.Go(func() { slow.consume(ctx, offset) })
	closeServer := r.world.network.serve(refusingHost, refusing)
	r.all = []*receiver{slow, refusing}
	for _, target := range r.all {
		operator.subscribe(ctx, target.name)
	}
	return func() {
		running.Wait()
		closeServer()
	}
}

// unfinished returns the receivers that have not got all events of the store.
func (r *receivers) unfinished(ctx context.Context) (texts []string) {
	for _, target := range r.all {
		expected, bodiless, err := r.eventsFor(ctx, target)
		if err != nil {
			return []string{err.Error()}
		}
		if n := target.received(bodiless); n < len(expected) {
			texts = append(texts, fmt.Sprintf("subscription %s has delivered %d events of %d", target.name, n, len(expected)))
		}
	}
	return texts
}

// eventsFor returns the ids of the events that a receiver has to get, and of the events without a body, which
// Watership parks.
func (r *receivers) eventsFor(ctx context.Context, target *receiver) (ids []string, bodiless map[string]bool, err error) {
	bodiless = map[string]bool{}
	_, actions := queryOf(target.name)
	events, err := r.world.watch.events(ctx, r.world.store)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range events {
		switch {
		case !slices.Contains(actions, e.Action):
		case r.world.oracle.losses.isBodiless(e.MessageID):
			bodiless[e.EventID] = true
		default:
			ids = append(ids, e.EventID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), bodiless, nil
}

// heldBetween says that a subscription was paused and resumed, each of which ends its delivery that is under way.
func (r *receivers) heldBetween(name string, from, to time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = append(r.held, span{name, from, to})
}

// mayRepeat returns whether an event that a receiver has accepted before may be delivered again: there was a fault, or a
// pause ended its delivery.
func (r *receivers) mayRepeat(target *receiver, before, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.world.oracle.faults.spare(at.Add(-time.Minute), at) || slices.ContainsFunc(r.held, func(s span) bool { return s.has(target.name, before) })
}

// check compares the deliveries with the store.
func (r *receivers) check(ctx context.Context) {
	for _, target := range r.all {
		expected, bodiless, err := r.eventsFor(ctx, target)
		if err != nil {
			r.world.fail("reading the store: %v", err)
			continue
		}
		// A queue that refuses a message gets later ones first, and one with priorities delivers in their order.
		nacks := slices.ContainsFunc(r.world.oracle.plan.Faults, func(f Fault) bool { return f.Kind == BrokerNacks || f.Kind == QueuesRefuse })
		target.check(expected, bodiless, target.name != slowQueue || !r.world.profile.Priorities && !nacks)
	}
}

// check reports events that the receiver has not accepted, those that came after later ones, and those
// that came twice without a fault.
func (r *receiver) check(expected []string, bodiless map[string]bool, ordered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var last eventstore.Cursor
	accepted := map[string]time.Time{}
	for _, a := range r.accepted {
		before, again := accepted[a.position.EventID]
		accepted[a.position.EventID] = a.at
		switch {
		case again && !a.again && !r.world.receivers.mayRepeat(r, before, a.at):
			r.world.fail("subscription %s delivers %s again without a fault", r.name, subscription.FormatPosition(a.position))
		case again:
			continue
		case ordered && comparePositions(a.position, last) < 0:
			r.world.fail("subscription %s delivers %s after %s", r.name, subscription.FormatPosition(a.position), subscription.FormatPosition(last))
		}
		last = a.position
	}
	for _, id := range expected {
		if accepted[id].IsZero() {
			r.world.fail("subscription %s has not delivered %s", r.name, id)
		}
	}
	maps.DeleteFunc(accepted, func(id string, _ time.Time) bool { return bodiless[id] })
	if len(accepted) > len(expected) {
		r.world.fail("subscription %s has delivered %d events of %d", r.name, len(accepted), len(expected))
	}
}

func comparePositions(a, b eventstore.Cursor) int {
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.EventID, b.EventID))
}
