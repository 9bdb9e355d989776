package failures

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

var ignoreSequences = cmpopts.IgnoreUnexported(Mute{}, Resolution{})

func stock() history.Kind {
	return history.Kind{Queue: "orders", Class: "stock", Type: "http.Status", Group: "no stock of # at 10:30"}
}

// stored returns an event of a change as it is read from its document.
func stored(t *testing.T, sequence int64, of history.Kind, by string, at time.Time, c Change) schemas.Event {
	t.Helper()
	e := schemas.Event{Action: schemas.Triaged, Sequence: sequence, Source: "shop", State: c.Event(of, by, at)}
	read, err := schemas.ParseDocument(schemas.DocumentFormat{}.Append(nil, e))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestStateFollowsFromDecisions(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	until := at.Add(time.Hour)
	muted := Change{Decision: Muted, Until: until, Reason: "closed"}
	mute := &Mute{By: "ada", Since: at, Reason: "closed", Until: &until}
	resolved := Change{Decision: Resolved, Reason: "fixed", UpTo: 7}
	for name, test := range map[string]struct {
		changes []Change
		want    State
	}{
		"assigned":             {[]Change{{Decision: Assigned, Assignee: "bob"}}, State{Assignee: "bob"}},
		"assigned again":       {[]Change{{Decision: Assigned, Assignee: "bob"}, {Decision: Assigned, Assignee: "eve"}}, State{Assignee: "eve"}},
		"unassigned":           {[]Change{{Decision: Assigned, Assignee: "bob"}, {Decision: Unassigned}}, State{}},
		"muted":                {[]Change{muted}, State{Muted: mute}},
		"unmuted":              {[]Change{muted, {Decision: Unmuted}}, State{}},
		"muted again":          {[]Change{{Decision: Muted, Count: 5, Reason: "few"}, muted}, State{Muted: mute}},
		"muted and assigned":   {[]Change{muted, {Decision: Assigned, Assignee: "bob"}}, State{Muted: mute, Assignee: "bob"}},
		"notes":                {[]Change{{Decision: Noted, Reason: "one"}, {Decision: Noted, Reason: "two"}}, State{Notes: []Note{{"ada", at, "one"}, {"ada", at, "two"}}}},
		"resolved is not mute": {[]Change{muted, resolved}, State{Resolved: &Resolution{By: "ada", Time: at, Reason: "fixed"}}},
		"muted after":          {[]Change{resolved, muted}, State{Muted: mute, Resolved: &Resolution{By: "ada", Time: at, Reason: "fixed"}}},
		"of a later version":   {[]Change{muted, {Decision: "moved"}}, State{Muted: mute}},
	} {
		states := States{}
		for i, c := range test.changes {
			states.Apply(stored(t, int64(10+i), stock(), "ada", at, c))
		}
		if test.want.Notes == nil {
			test.want.Notes = []Note{}
		}
		if diff := cmp.Diff(test.want, states.Of(stock()), ignoreSequences); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if states.Of(history.Kind{Queue: "orders"}).Muted != nil || len(states) != 1 {
			t.Errorf("%s: other groups have a state: %v", name, states)
		}
		if up := states.Resolutions()[stock()]; (up == 7) != (test.want.Resolved != nil) {
			t.Errorf("%s: resolved up to %d", name, up)
		}
	}
}

// The order in which two operators decide about different things does not matter, and the
// later decision about one thing stands.
func TestDecisionsOfTwoOperators(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	changes := []struct {
		by string
		Change
	}{
		{"ada", Change{Decision: Assigned, Assignee: "ada"}},
		{"bob", Change{Decision: Muted, Count: 3, Reason: "few"}},
		{"ada", Change{Decision: Noted, Reason: "OPS-12"}},
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		states := States{}
		for i, n := range random.Perm(len(changes)) {
			states.Apply(stored(t, int64(i+1), stock(), changes[n].by, at, changes[n].Change))
		}
		got := states.Of(stock())
		if got.Assignee != "ada" || got.Muted == nil || got.Muted.By != "bob" || len(got.Notes) != 1 {
			t.Fatalf("%+v", got)
		}
	}
}

func TestNotesAreBounded(t *testing.T) {
	states := States{}
	for n := range maxNotes + 5 {
		states.Apply(stored(t, int64(n), stock(), "ada", time.Now(), Change{Decision: Noted, Reason: fmt.Sprint("note ", n)}))
	}
	if notes := states.Of(stock()).Notes; len(notes) != maxNotes || notes[0].Text != "note 5" {
		t.Errorf("%d notes, %+v first", len(notes), notes[0])
	}
}

// A mute ends by itself, with its time or with the Nth further failure. Failures
// before it, and those of other groups, do not count.
func TestMutesEnd(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { testMutesEnd(t, systemtest.Store(t)) })
	t.Run("elasticsearch", func(t *testing.T) {
		url := os.Getenv("WATERSHIP_TEST_STORE_URL")
		if url == "" {
			t.Skip("WATERSHIP_TEST_STORE_URL is not set")
		}
		store, err := elastic.Open(elastic.Config{URLs: []string{url}, Stream: "test-failuregroup"})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		testMutesEnd(t, store)
	})
}

// writtenStore is a store that tests write to.
type writtenStore interface {
	Store
	Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error)
}

func testMutesEnd(t *testing.T, store writtenStore) {
	queue := fmt.Sprint("orders-", time.Now().UnixNano())
	ours := kql.FieldIs("watership.source", queue)
	now := time.Now().Truncate(time.Millisecond).UTC()
	sequence := int64(0)
	put := func(e schemas.Event) {
		t.Helper()
		sequence++
		e.Sequence, e.Source = sequence, queue
		if _, err := store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
			t.Fatal(err)
		}
	}
	fail := func(class string) {
		put(schemas.Event{Action: schemas.Poisoned, State: schemas.State{
			EventID: fmt.Sprint(queue, "-", sequence), Time: now, Queue: queue, Failure: schemas.Failure{Message: "no stock", Class: class},
		}})
	}
	few, late := history.Kind{Queue: queue, Class: "few", Group: "no stock"}, history.Kind{Queue: queue, Class: "late", Group: "no stock"}
	check := func(at time.Time, want ...string) {
		t.Helper()
		if err := store.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		states, err := Read(t.Context(), store, ours, at)
		if err != nil {
			t.Fatal(err)
		}
		var muted []string
		for kind := range states {
			if states.IsMuted(kind) {
				muted = append(muted, kind.Class)
			}
		}
		if slices.Sort(muted); !slices.Equal(muted, want) {
			t.Errorf("after event %d at %s, %q are muted, want %q", sequence, at.Sub(now), muted, want)
		}
		if m := states.Of(few).Muted; m != nil && m.Failures > 1 {
			t.Errorf("%d failures since", m.Failures)
		}
	}
	fail("few")
	put(schemas.Event{Action: schemas.Triaged, State: Change{Decision: Muted, Count: 2, Reason: "few"}.Event(few, "ada", now)})
	put(schemas.Event{Action: schemas.Triaged, State: Change{Decision: Muted, Until: now.Add(time.Hour), Reason: "late"}.Event(late, "ada", now)})
	check(now, "few", "late")
	fail("late")
	fail("few")
	check(now.Add(time.Hour-time.Millisecond), "few", "late")
	check(now.Add(time.Hour), "few")
	fail("few")
	check(now, "late")
	fail("few")
	check(now, "late")
	put(schemas.Event{Action: schemas.Triaged, State: Change{Decision: Muted, Count: 100, Until: now.Add(time.Minute), Reason: "again"}.Event(few, "bob", now)})
	check(now, "few", "late")
	check(now.Add(time.Minute), "late")
}

func TestMistakes(t *testing.T) {
	now := time.Now()
	for want, c := range map[string]Change{
		"":                               {Decision: Muted, Count: 5, Reason: "few"},
		"decision":                       {Decision: "moved"},
		"assignee":                       {Decision: Assigned, Assignee: " "},
		"without control":                {Decision: Assigned, Assignee: "a\nb"},
		"control char":                   {Decision: Assigned, Assignee: "a\u202eb"},
		"at most 200":                    {Decision: Assigned, Assignee: strings.Repeat("a", 201)},
		"a reason":                       {Decision: Muted, Count: 5},
		"the text of":                    {Decision: Noted},
		"a time or a":                    {Decision: Muted, Reason: "few"},
		"1 to":                           {Decision: Muted, Count: -1, Reason: "few"},
		"has passed":                     {Decision: Muted, Until: now, Reason: "late"},
		"year":                           {Decision: Muted, Until: now.AddDate(9000, 0, 0), Reason: "late"},
		"at most 1000":                   {Decision: Noted, Reason: strings.Repeat("x", 1001)},
		"has 1001 char":                  {Decision: Muted, Count: 5, Reason: strings.Repeat("é", 1001)},
		"is not UTF-8":                   {Decision: Noted, Reason: "\xff"},
		"expected a reaso":               {Decision: Resolved},
		"assigned has no count":          {Decision: Assigned, Assignee: "ada", Count: 5},
		"assigned has no time at which":  {Decision: Assigned, Assignee: "ada", Until: now.Add(time.Hour)},
		"muted has no assignee":          {Decision: Muted, Count: 5, Reason: "few", Assignee: "ada"},
		"unmuted has no count":           {Decision: Unmuted, Count: 5},
		"noted has no assignee":          {Decision: Noted, Reason: "x", Assignee: "ada"},
		"resolved has no time at which":  {Decision: Resolved, Reason: "x", Until: now.Add(time.Hour)},
		"unassigned has no assignee":     {Decision: Unassigned, Assignee: "ada"},
		"noted has no sequence of the n": {Decision: Noted, Reason: "x", UpTo: 7},
	} {
		if err := c.Check(now); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	// Characters count, not bytes.
	for _, c := range []Change{
		{Decision: Noted, Reason: strings.Repeat("🐇", 1000)}, {Decision: Assigned, Assignee: strings.Repeat("é", 200)},
	} {
		if err := c.Check(now); err != nil {
			t.Error(err)
		}
	}
}
