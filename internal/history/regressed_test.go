package history

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// A group has regressed if one of its failures came when it had earlier failures and all of
// them were resolved. A model looks at the time before each failure alone.
func TestRegressedGroupsAreThoseOfTheModel(t *testing.T) {
	regressed := 0
	for seed := range uint64(10) {
		lives := &generatedLives{Rand: rand.New(rand.NewPCG(seed, 2))}
		for range 20 {
			lives.addMessage()
		}
		lives.putInOrder()
		failures, err := NewFailures(t.Context(), filledStore(t, lives.events), []string{"orders", "mail", "invoices", "labels"})
		if err != nil {
			t.Fatal(err)
		}
		want := modelRegressed(t, failures)
		for name, within := range map[string]kql.Node{"all": nil, "some": kql.Not{Node: kql.FieldIs("messaging.message.id", "m-1")}} {
			groups, err := failures.Groups(t.Context(), node(within))
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				if g.Regressed != want[g.Kind] {
					t.Errorf("seed %d, %s: regressed of %+v is %v", seed, name, g.Kind, g.Regressed)
				}
				if g.Regressed {
					regressed++
				}
			}
		}
	}
	if regressed < 3 {
		t.Errorf("only %d groups have regressed", regressed)
	}
}

// putInOrder gives the events the order in which they were made, in which they refer to
// earlier ones. Nobody discards a failure that is yet to come.
func (g *generatedLives) putInOrder() {
	failed := map[string]bool{}
	for i := range g.events {
		e := &g.events[i]
		e.Sequence = int64(10 * (i + 1))
		if action := e.RecordedAction(); action == schemas.Poisoned {
			failed[e.Message] = true
		} else if action == schemas.Discarded && !failed[e.Message] {
			e.Message = ""
		}
	}
}

// modelRegressed returns the groups that came back, and compares CameBack and FirstBack with that.
func modelRegressed(t *testing.T, failures Failures) map[Kind]bool {
	t.Helper()
	before, regressed, back := map[Kind]bool{}, map[Kind]bool{}, map[Kind][]int64{}
	var sequences []int64
	all := failures.Store.Summaries(t.Context(), eventstore.Selection{Query: GivenUp()})
	for f, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		kind, earlier := KindOf(f), failures
		earlier.UpTo = f.Sequence - 1
		open := map[Kind]bool{}
		for g, err := range earlier.Open(t.Context(), kql.All{}) {
			if err != nil {
				t.Fatal(err)
			}
			open[KindOf(g)] = true
		}
		isFirst, err := failures.IsFirst(t.Context(), kind.Query(), f.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		cameBack := !isFirst && !open[kind]
		if got, err := failures.CameBack(t.Context(), kind, kind.Query(), f.Sequence); err != nil || got != cameBack {
			t.Fatalf("%s came back: %v, %v", f.EventID, got, err)
		}
		regressed[kind] = regressed[kind] || cameBack && before[kind]
		before[kind] = true
		sequences = append(sequences, f.Sequence)
		if cameBack {
			back[kind] = append(back[kind], f.Sequence)
		}
	}
	for kind := range before {
		for i := 0; i < len(sequences); i += 5 {
			after := sequences[i]
			want := int64(0)
			if later := slices.IndexFunc(back[kind], func(s int64) bool { return s > after }); later >= 0 {
				want = back[kind][later]
			}
			if got, err := failures.FirstBack(t.Context(), kind, kind.Query(), after); err != nil || got != want {
				t.Fatalf("first back after %d: %d, want %d, %v", after, got, want, err)
			}
		}
	}
	return regressed
}

// An operator's resolution counts for all failures before it.
func TestResolutionsOfOperators(t *testing.T) {
	lives := &generatedLives{Rand: rand.New(rand.NewPCG(1, 3))}
	for range 60 {
		lives.addMessage()
	}
	failures, err := NewFailures(t.Context(), filledStore(t, lives.events), nil)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := failures.Groups(t.Context(), kql.All{})
	if err != nil || len(groups) == 0 {
		t.Fatal(err)
	}
	for _, g := range groups {
		newest := g.UpTo
		for resolved, want := range map[int64]bool{newest - 1: true, newest: false, newest + 1: false} {
			failures.Resolved = map[Kind]int64{g.Kind: resolved}
			for _, within := range []kql.Node{kql.All{}, g.Kind.Query()} {
				again, err := failures.Groups(t.Context(), within)
				if err != nil {
					t.Fatal(err)
				}
				for _, other := range again {
					if other.Kind == g.Kind && other.Regressed != want {
						t.Errorf("resolved at %d, newest failure at %d: regressed is %v", resolved, newest, other.Regressed)
					}
				}
			}
		}
		failures.Resolved = map[Kind]int64{g.Kind: newest - 1}
		if cameBack, err := failures.CameBack(t.Context(), g.Kind, g.Kind.Query(), newest); err != nil || !cameBack {
			t.Errorf("came back after its resolution: %v, %v", cameBack, err)
		}
	}
}

func TestIDsOfKinds(t *testing.T) {
	ids := map[string]Kind{}
	for _, k := range []Kind{{}, {Queue: "a", Class: "b"}, {Queue: "ab"}, {Queue: "a", Type: "b"}, {Queue: "a", Group: "b"}, {Queue: "a"}} {
		id := k.ID()
		if other, is := ids[id]; is || len(id) != 8 || id != k.ID() {
			t.Errorf("%+v and %+v have the id %q", k, other, id)
		}
		ids[id] = k
	}
	if id := (Kind{Queue: "orders", Class: "default", Type: "timeout", Group: "no stock of #"}).ID(); id != "oldereo2" {
		t.Errorf("the id is %s: people have written the former one down", id)
	}
}

// counted counts the summaries that are read, and the requests for them.
type counted struct {
	Store
	read, requests int
}

func (c *counted) Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	return func(yield func(eventstore.EventSummary, error) bool) {
		c.requests++
		for summary, err := range c.Store.Summaries(ctx, sel, either...) {
			if c.read++; !yield(summary, err) {
				return
			}
		}
	}
}

// A narrow query does not read all failures that its groups ever had: after an open one, none
// comes back.
func TestNarrowGroupsReadLittle(t *testing.T) {
	var events []schemas.Event
	for i := range int64(3 * chunkSize) {
		e := schemas.Event{Action: schemas.Poisoned, Sequence: 10 * (i + 1), Source: "test"}
		e.EventID, e.Message, e.Queue, e.Attempt, e.Time = fmt.Sprint("p-", i), fmt.Sprint("m-", i), "orders", 1, time.UnixMicro(e.Sequence).UTC()
		events = append(events, e)
	}
	failures, err := NewFailures(t.Context(), filledStore(t, events), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := &counted{Store: failures.Store}
	failures.Store = store
	groups, err := failures.Groups(t.Context(), kql.FieldIs("watership.message", "m-7"))
	if err != nil || len(groups) != 1 || groups[0].Count != 1 || groups[0].Regressed {
		t.Fatalf("%+v, %v", groups, err)
	}
	if store.read > 3*chunkSize { // the first ones, and what may resolve them
		t.Errorf("%d summaries were read for one failure", store.read)
	}
}

// Groups of a narrow query read the former failures of all groups at once, and no more than the
// groups of all failures do.
func TestManyNarrowGroupsReadLittle(t *testing.T) {
	var events []schemas.Event
	for i := range int64(400) {
		e := schemas.Event{Action: schemas.Poisoned, Sequence: 10 * (i + 1), Source: "test"}
		e.EventID, e.Message, e.Queue, e.Attempt, e.Time = fmt.Sprint("p-", i), fmt.Sprint("m-", i), "orders", 1, time.UnixMicro(e.Sequence).UTC()
		e.Failure.Message = fmt.Sprintf("no %c%c in stock", 'a'+rune(i%5), 'a'+rune(i/5%10))
		events = append(events, e)
	}
	failures, err := NewFailures(t.Context(), filledStore(t, events), nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := func(within kql.Node) *counted {
		store := &counted{Store: failures.Store}
		counting := failures
		counting.Store = store
		groups, err := counting.Groups(t.Context(), within)
		if err != nil || len(groups) != 50 {
			t.Fatalf("%d groups, %v", len(groups), err)
		}
		return store
	}
	all, some := asked(kql.All{}), asked(UpTo(events[199].Sequence))
	const recent = 1 // request, for the failures of the last two hours
	if some.read > 2*all.read || some.requests > 2*all.requests+recent {
		t.Errorf("a narrow query reads %d summaries in %d requests, all failures take %d in %d", some.read, some.requests, all.read, all.requests)
	}
}

// The failures that are asked about are not read again as events of themselves.
func TestFailuresAreReadOnce(t *testing.T) {
	var events []schemas.Event
	for i := range int64(500) {
		e := schemas.Event{Action: schemas.Poisoned, Sequence: 10 * (i + 1), Source: "test"}
		e.EventID, e.Message, e.Queue, e.Attempt, e.Time = fmt.Sprint("p-", i), fmt.Sprint("m-", i), "orders", 1, time.UnixMicro(e.Sequence).UTC()
		events = append(events, e)
	}
	failures, err := NewFailures(t.Context(), filledStore(t, events), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := &counted{Store: failures.Store}
	failures.Store = store
	if open := len(openIDs(t, failures, nil)); open != len(events) || store.read != len(events) {
		t.Errorf("%d failures are open, and %d summaries were read", open, store.read)
	}
}
