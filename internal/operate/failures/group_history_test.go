package failures

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// eventID returns the id of the event that a document has.
func eventID(t *testing.T, document eventjson.Document) string {
	t.Helper()
	e, err := schemas.ParseDocument(document)
	must(t, err)
	return e.EventID
}

// after returns the event of what became of a failure by a job.
func after(failure schemas.Event, action schemas.Action, job string) schemas.Event {
	e := failure
	e.Action, e.EventID, e.Replay, e.ReplayOf, e.Failure = action, fmt.Sprint(action, "-", failure.EventID, "-", job), job, failure.EventID, schemas.Failure{}
	return e
}

// The failures of a group have an order, in which resolved ones are left out.
func TestFailuresOfAGroupOneByOne(t *testing.T) {
	a, b, c, d := failed("orders", "a", "x"), failed("orders", "b", "x"), failed("orders", "c", "x"), failed("orders", "d", "x")
	s := newStored(t, a, b, c, d, failed("orders", "e", "y"), after(b, schemas.Handled, ""))
	for _, want := range []struct {
		id           string // asked for
		event        string
		place        int
		newer, older string
	}{
		{"", "failure-d", 1, "", "failure-c"},
		{"failure-d", "failure-d", 1, "", "failure-c"},
		{"failure-c", "failure-c", 2, "failure-d", "failure-a"},
		{"failure-a", "failure-a", 3, "failure-c", ""},
		{"failure-b", "failure-b", 0, "failure-c", "failure-a"},
	} {
		out, err := operations{s}.groupFailure(as(t), &GroupFailureInput{Group: groupOf("orders", "x"), ID: want.id})
		must(t, err)
		got := out.Body
		if got.Of != 3 || got.Place != want.place || got.Newer != want.newer || got.Older != want.older || eventID(t, got.Event) != want.event {
			t.Errorf("%q: %+v, want %+v", want.id, got, want)
		}
	}
	_, err := operations{s}.groupFailure(as(t), &GroupFailureInput{Group: groupOf("orders", "x"), ID: "failure-e"})
	wantStatus(t, err, http.StatusNotFound, "failure-e")
	_, err = operations{s}.groupFailure(as(t, "mail"), &GroupFailureInput{Group: groupOf("orders", "x")})
	wantStatus(t, err, http.StatusNotFound, groupOf("orders", "x"))
}

// A group without unresolved failures shows its newest one.
func TestTheNewestFailureOfAResolvedGroup(t *testing.T) {
	a, b := failed("orders", "a", "x"), failed("orders", "b", "x")
	s := newStored(t, a, b, after(a, schemas.Handled, ""), after(b, schemas.Handled, ""))
	out, err := operations{s}.groupFailure(as(t), &GroupFailureInput{Group: groupOf("orders", "x")})
	must(t, err)
	if got := out.Body; got.Place != 0 || got.Of != 0 || eventID(t, got.Event) != "failure-b" {
		t.Errorf("%+v", got)
	}
}

// Notes, decisions, discards and replays are one history, the newest first.
func TestHistoryOfAGroup(t *testing.T) {
	a, b, c := failed("orders", "a", "x"), failed("orders", "b", "x"), failed("orders", "c", "x")
	failedAgain := after(b, schemas.Poisoned, "job-1")
	failedAgain.Failure = schemas.Failure{Message: "out of stock", Class: "z"}
	s, _ := newService(t)
	systemtest.Record(t, s.System, a, b, c,
		after(a, schemas.Replayed, "job-1"), after(b, schemas.Replayed, "job-1"), after(c, schemas.Replayed, "job-2"),
		after(a, schemas.Handled, "job-1"), failedAgain)
	group := groupOf("orders", "x")
	for _, d := range []GroupDecision{
		{Decision: Noted, Reason: "OPS-12"}, {Decision: Assigned, Assignee: "bob"}, {Decision: Muted, Count: 5, Reason: "known"},
	} {
		_, err := s.decide(t, as(t), group, d)
		must(t, err)
	}
	out, err := operations{s}.history(as(t), &GroupInput{group})
	must(t, err)
	var got []string
	for i, e := range out.Body.Entries {
		text := fmt.Sprint(e.What, " ", e.By, " ", e.Text, e.Assignee)
		if r := e.Replay; r != nil {
			text = fmt.Sprintf("%s %s: %d sent, %d handled, %d failed, %d pending", e.What, r.Job, r.Sent, r.Handled, r.Failed, r.Pending)
		}
		if got = append(got, text); i > 0 && e.Time.After(out.Body.Entries[i-1].Time) {
			t.Errorf("%s is newer than the entry before it", text)
		}
	}
	slices.Sort(got)
	want := []string{
		"assigned ann bob", "muted ann known", "noted ann OPS-12",
		"replayed job-1: 2 sent, 1 handled, 1 failed, 0 pending", "replayed job-2: 1 sent, 0 handled, 0 failed, 1 pending",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if _, err := (operations{s}).history(as(t, "mail"), &GroupInput{group}); err == nil {
		t.Error("a caller sees the history of a group of a queue that is hidden from it")
	}
}

// A resolution is one entry with the number of its failures, and a discard is one entry for all
// failures.
func TestHistoryCountsWhatWasDiscarded(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"), failed("orders", "b", "x"), failed("orders", "c", "x"))
	discard := DiscardInput{}
	discard.Body.IDs, discard.Body.Reason = []string{"failure-a"}, "a test (mine)"
	_, err := operations{s}.discardFailures(as(t), &discard)
	must(t, err)
	resolve := ResolveInput{}
	resolve.Body.Groups, resolve.Body.Reason = []string{groupOf("orders", "x")}, "fixed"
	_, err = operations{s}.resolve(as(t), &resolve)
	must(t, err)
	out, err := operations{s}.history(as(t), &GroupInput{groupOf("orders", "x")})
	must(t, err)
	e := out.Body.Entries
	if len(e) != 2 || e[0].What != Resolved || e[0].Failures != 2 || e[1].What != discarded || e[1].Failures != 1 || e[1].By != "ann" || e[1].Text != "a test (mine)" {
		t.Errorf("%+v", e)
	}
}

// A group is new for a day, and escalates if it fails more often than in the hour before.
func TestTrendsOfGroups(t *testing.T) {
	now := time.Now()
	at := func(class string, ages ...time.Duration) (events []schemas.Event) {
		for i, age := range ages {
			e := failed("orders", fmt.Sprint(class, i), class)
			e.Time = now.Add(-age)
			e.Sequence = e.Time.UnixMicro()
			events = append(events, e)
		}
		return events
	}
	many := slices.Repeat([]time.Duration{time.Minute}, 10)
	events := at("new", 90*time.Minute, time.Minute)
	events = append(events, at("old", 48*time.Hour)...)
	events = append(events, at("worse", append([]time.Duration{48 * time.Hour, 90 * time.Minute, 90 * time.Minute, 90 * time.Minute}, many...)...)...)
	events = append(events, at("steady", append([]time.Duration{48 * time.Hour, 90 * time.Minute, 90 * time.Minute, 90 * time.Minute, 90 * time.Minute}, many...)...)...)
	s := newStored(t, events...)
	want := map[string]history.Group{
		"new": {New: true, LastHour: 1, HourBefore: 1}, "old": {}, "worse": {Escalating: true, LastHour: 10, HourBefore: 3}, "steady": {LastHour: 10, HourBefore: 4},
	}
	for _, g := range s.list(t, as(t), GroupsInput{}).Groups {
		w := want[g.Class]
		if g.New != w.New || g.Escalating != w.Escalating || g.LastHour != w.LastHour || g.HourBefore != w.HourBefore {
			t.Errorf("%s: new %t, escalating %t, %d and %d before; want %+v", g.Class, g.New, g.Escalating, g.LastHour, g.HourBefore, w)
		}
	}
	late := GroupsInput{}
	late.Since = "1h"
	for _, g := range s.list(t, as(t), late).Groups {
		if g.New != (g.Class == "new") {
			t.Errorf("%s of the last hour: new %t", g.Class, g.New)
		}
	}
}
