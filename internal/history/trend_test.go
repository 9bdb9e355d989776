package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// aged returns failures of a queue with some ages, oldest first.
func aged(now time.Time, queue string, ages ...time.Duration) (events []schemas.Event) {
	for i, age := range ages {
		e := schemas.Event{Action: schemas.Poisoned, Source: "test"}
		e.EventID, e.Message, e.Queue, e.Attempt = fmt.Sprint("p-", queue, i), fmt.Sprint("m-", queue, i), queue, 1
		e.Time = now.Add(-age)
		e.Sequence = e.Time.UnixMicro()
		events = append(events, e)
	}
	return events
}

// since matches the failures of a period up to now.
func since(now time.Time, period time.Duration) kql.Node {
	return byTime(kql.GreaterOrEqual, now.Add(-period))
}

// The trends of groups are those of all their failures, whatever failures a list has.
func TestTrendsCountAllFailuresOfTheirGroups(t *testing.T) {
	now := time.Now()
	const old, hourBefore = 48 * time.Hour, 90 * time.Minute
	lately := slices.Concat(slices.Repeat([]time.Duration{20 * time.Minute}, 9), []time.Duration{time.Minute})
	steady := slices.Concat([]time.Duration{old}, slices.Repeat([]time.Duration{hourBefore}, 10), lately)
	worse := slices.Concat([]time.Duration{old}, slices.Repeat([]time.Duration{hourBefore}, 3), lately)
	fresh := slices.Concat([]time.Duration{hourBefore}, lately)
	events := slices.Concat(aged(now, "steady", steady...), aged(now, "worse", worse...), aged(now, "fresh", fresh...))
	// A handled one counts, too.
	handled := events[len(steady)-2]
	handled.Action, handled.EventID, handled.Sequence = schemas.Handled, "handled", handled.Sequence+1
	failures, err := NewFailures(t.Context(), filledStore(t, append(events, handled)), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Group{
		"steady": {LastHour: 10, HourBefore: 10}, "worse": {Escalating: true, LastHour: 10, HourBefore: 3}, "fresh": {New: true, LastHour: 10, HourBefore: 1},
	}
	for name, node := range map[string]kql.Node{
		"all": kql.All{}, "an hour": since(now, time.Hour), "five minutes": since(now, 5*time.Minute), "three days": since(now, 72*time.Hour),
		"until an hour ago": before(now.Add(-time.Hour)), "some queues": kql.Or{kql.FieldIs("watership.queue", "steady"), kql.FieldIs("watership.queue", "worse"), kql.FieldIs("watership.queue", "fresh")},
	} {
		groups, err := failures.Groups(t.Context(), node)
		if err != nil || len(groups) != len(want) {
			t.Fatalf("%s: %d groups, %v", name, len(groups), err)
		}
		for _, g := range groups {
			w := want[g.Queue]
			if g.New != w.New || g.Escalating != w.Escalating || g.LastHour != w.LastHour || g.HourBefore != w.HourBefore {
				t.Errorf("%s, %s: new %t, escalating %t, %d and %d before; want new %t, escalating %t, %d and %d before",
					name, g.Queue, g.New, g.Escalating, g.LastHour, g.HourBefore, w.New, w.Escalating, w.LastHour, w.HourBefore)
			}
		}
	}
}

// Many groups whose failures in a list are all of the last day cost as many requests as few groups do.
func TestTrendsOfManyGroupsTakeFewRequests(t *testing.T) {
	now := time.Now()
	asked := func(each int) *counted {
		var events []schemas.Event
		resolved := map[Kind]int64{}
		for i := range each {
			old := aged(now, fmt.Sprint("old-", i), 48*time.Hour, time.Minute)
			if i%2 == 0 { // by an operator, who left the failures open
				resolved[KindOf(eventstore.Summarize(old[1]))] = old[1].Sequence
			}
			events = append(events, old...)
			events = append(events, aged(now, fmt.Sprint("new-", i), time.Minute)...)
		}
		failures, err := NewFailures(t.Context(), filledStore(t, events), nil)
		if err != nil {
			t.Fatal(err)
		}
		store := &counted{Store: failures.Store}
		failures.Store, failures.Resolved = store, resolved
		groups, err := failures.Groups(t.Context(), since(now, time.Hour))
		if err != nil || len(groups) != 2*each {
			t.Fatalf("%d groups, %v", len(groups), err)
		}
		for _, g := range groups {
			if g.New != (g.Queue[:3] == "new") {
				t.Errorf("%s: new is %t", g.Queue, g.New)
			}
		}
		return store
	}
	few, many := asked(1), asked(50)
	if many.requests > few.requests || many.read > 50*few.read {
		t.Errorf("100 groups read %d summaries in %d requests, 2 groups %d in %d", many.read, many.requests, few.read, few.requests)
	}
}

// What tells whether groups came back tells which are new as well, so that the failures of an old group are not
// read a second time for the sake of a new one.
func TestANewGroupReadsNoFailuresOfOldOnes(t *testing.T) {
	now := time.Now()
	const earlier = 3 * chunkSize
	events := aged(now, "old", append(slices.Repeat([]time.Duration{48 * time.Hour}, earlier), time.Minute)...)
	for i := range events {
		events[i].Sequence += int64(i)
		events[i].Failure.Message = "out of stock"
	}
	events = append(events, aged(now, "new", time.Minute)...)
	failures, err := NewFailures(t.Context(), filledStore(t, events), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := &counted{Store: failures.Store}
	failures.Store = store
	groups, err := failures.Groups(t.Context(), since(now, time.Hour))
	if err != nil || len(groups) != 2 || groups[0].New == groups[1].New {
		t.Fatalf("%+v, %v", groups, err)
	}
	if store.read > earlier+earlier/2 {
		t.Errorf("%d summaries were read of %d failures", store.read, len(events))
	}
}

// The first failure of a group that no operator resolved tells whether it is new, so that a list with new groups takes
// as many requests as one with old groups.
func TestNewGroupsTakeNoFurtherRequest(t *testing.T) {
	now := time.Now()
	asked := func(isNew bool, ages ...time.Duration) int {
		failures, err := NewFailures(t.Context(), filledStore(t, slices.Concat(aged(now, "a", ages...), aged(now, "b", ages...))), nil)
		if err != nil {
			t.Fatal(err)
		}
		store := &counted{Store: failures.Store}
		failures.Store = store
		groups, err := failures.Groups(t.Context(), since(now, time.Hour))
		if err != nil || len(groups) != 2 || groups[0].New != isNew || groups[1].New != isNew {
			t.Fatalf("%+v, %v", groups, err)
		}
		return store.requests
	}
	if old, fresh := asked(false, 48*time.Hour, time.Minute), asked(true, 2*time.Minute, time.Minute); fresh > old {
		t.Errorf("new groups took %d requests, old ones %d", fresh, old)
	}
}
