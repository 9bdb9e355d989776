package failures

import (
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

func TestADecisionIsAnEventOfItsGroup(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	s := Change{Decision: Assigned, Assignee: " bob "}.Event(stock(), "ada", now)
	if s.Queue != "orders" || s.Failure.Class != "stock" || s.Failure.Type != "http.Status" || s.Triage.Group != stock().ID() {
		t.Errorf("the group of %+v is another", s)
	}
	if s.Triage.Decision != "assigned" || s.Triage.Assignee != "bob" || s.Audit.User != "ada" || !s.Time.Equal(now) {
		t.Errorf("%+v", s)
	}
}

func TestEachDecisionHasItsOwnEvent(t *testing.T) {
	c := Change{Decision: Unmuted}
	first, second := c.Event(stock(), "ada", time.Now()), c.Event(stock(), "ada", time.Now())
	if first.EventID == second.EventID {
		t.Error("two decisions have one id: the second would be lost")
	}
}

func TestTextsOfDecisionsAreTrimmed(t *testing.T) {
	if s := (Change{Decision: Noted, Reason: " OPS-12\n"}).Event(stock(), "ada", time.Now()); s.Audit.Reason != "OPS-12" {
		t.Errorf("%q", s.Audit.Reason)
	}
}

func TestWhatADecisionChanges(t *testing.T) {
	muted, assigned := State{Muted: &Mute{}}, State{Assignee: "bob"}
	for name, test := range map[string]struct {
		change Change
		state  State
		want   bool
	}{
		"unmuting a muted group":          {Change{Decision: Unmuted}, muted, true},
		"unmuting another":                {Change{Decision: Unmuted}, assigned, false},
		"assigning to another":            {Change{Decision: Assigned, Assignee: "eve"}, assigned, true},
		"assigning to the same":           {Change{Decision: Assigned, Assignee: " bob"}, assigned, false},
		"unassigning":                     {Change{Decision: Unassigned}, assigned, true},
		"unassigning what nobody has":     {Change{Decision: Unassigned}, muted, false},
		"muting again, for another time":  {Change{Decision: Muted, Count: 2}, muted, true},
		"a note like the one before":      {Change{Decision: Noted, Reason: "x"}, State{Notes: []Note{{Text: "x"}}}, true},
		"resolving what was resolved too": {Change{Decision: Resolved}, State{Resolved: &Resolution{}}, true},
	} {
		if got := test.change.Changes(test.state); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAMuteOfAPeriodOrACount(t *testing.T) {
	now := time.Now()
	for _, c := range []Change{
		{Decision: Muted, Until: now.Add(time.Nanosecond), Reason: "x"},
		{Decision: Muted, Count: 1, Reason: "x"},
		{Decision: Muted, Count: MaxCount, Reason: "x"},
		{Decision: Muted, Until: now.Add(time.Hour), Count: 5, Reason: "x"},
	} {
		if err := c.Check(now); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := (Change{Decision: Muted, Count: MaxCount + 1, Reason: "x"}).Check(now); err == nil {
		t.Error("a count above the maximum is possible")
	}
}

func TestNotesMayHaveLines(t *testing.T) {
	if err := (Change{Decision: Noted, Reason: "one\ntwo"}).Check(time.Now()); err != nil {
		t.Error(err)
	}
}

func TestAnotherEventChangesNoState(t *testing.T) {
	states := States{}
	states.Apply(schemas.Event{Action: schemas.Poisoned, State: schemas.State{Queue: "orders"}})
	if len(states) != 0 {
		t.Errorf("%+v", states)
	}
}

// A decision that the store could not take as it was is one still.
func TestADecisionInQuarantineCounts(t *testing.T) {
	e := stored(t, 7, stock(), "ada", time.Now(), Change{Decision: Assigned, Assignee: "bob"})
	states := States{}
	states.Apply(e.Quarantine("too many fields"))
	if got := states.Of(stock()).Assignee; got != "bob" {
		t.Errorf("%q", got)
	}
}

func TestResolutionsAfterASequence(t *testing.T) {
	states, bills := States{}, history.Kind{Queue: "bills", Group: "x"}
	states.Apply(stored(t, 10, stock(), "ada", time.Now(), Change{Decision: Resolved, Reason: "x", UpTo: 7}))
	states.Apply(stored(t, 20, bills, "ada", time.Now(), Change{Decision: Resolved, Reason: "x"}))
	if got := states.ResolutionsAfter(10); len(got) != 1 || got[bills] != 20 {
		t.Errorf("%v", got)
	}
	if got := states.Resolutions(); len(got) != 2 || got[stock()] != 7 {
		t.Errorf("%v", got)
	}
}

func TestAGroupWithoutDecisionsHasAnEmptyListOfNotes(t *testing.T) {
	if s := (States{}).Of(stock()); s.Notes == nil || s.Assignee != "" || s.Muted != nil {
		t.Errorf("%+v", s)
	}
}

func TestAnUnknownGroupIsNamed(t *testing.T) {
	if err := (&NotFoundError{"abc"}).Error(); !strings.Contains(err, `"abc"`) {
		t.Error(err)
	}
}
