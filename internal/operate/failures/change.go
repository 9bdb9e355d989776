package failures

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/schemas"
)

// Decision is what an operator decided about a group.
type Decision string

// The decisions. Resolved follows after the failures of the group were discarded.
const (
	Assigned   Decision = "assigned"
	Unassigned Decision = "unassigned"
	Muted      Decision = "muted"
	Unmuted    Decision = "unmuted"
	Noted      Decision = "noted"
	Resolved   Decision = "resolved"
)

// Bounds of a Change, besides reason.Max.
const (
	MaxAssignee = 200 // characters
	MaxCount    = 1_000_000
)

// Change is a decision about a group with its details.
type Change struct {
	Decision Decision
	Assignee string    // of Assigned
	Until    time.Time // Muted: up to this time; zero: Count alone ends it
	Count    int       // Muted: the further failure that ends it; 0: Until alone ends it
	Reason   string    // of Noted: the note
	UpTo     int64     // Resolved: sequence of the newest failure that it is about
}

// Check reports a mistake in a change.
func (c Change) Check(now time.Time) error {
	switch c.Decision {
	case Assigned:
		if strings.TrimSpace(c.Assignee) == "" {
			return errors.New("expected the name of the assignee")
		}
	case Muted:
		if err := c.checkEnd(now); err != nil {
			return err
		}
	case Unassigned, Unmuted, Noted, Resolved:
	default:
		return fmt.Errorf("decision %q: expected assigned, unassigned, muted, unmuted or noted", c.Decision)
	}
	switch {
	case c.Decision == Muted || c.Decision == Resolved:
		if err := reason.Need(c.Reason); err != nil {
			return err
		}
	case c.Decision == Noted && strings.TrimSpace(c.Reason) == "":
		return errors.New("expected the text of the note")
	}
	if err := c.checkDetails(); err != nil {
		return err
	}
	return c.checkTexts()
}

// checkDetails refuses details of other decisions.
func (c Change) checkDetails() error {
	for _, detail := range []struct {
		isGiven bool
		name    string
		of      Decision
	}{
		{c.Assignee != "", "assignee", Assigned},
		{!c.Until.IsZero(), "time at which it ends", Muted},
		{c.Count != 0, "count", Muted},
		{c.UpTo != 0, "sequence of the newest failure", Resolved},
	} {
		if detail.isGiven && c.Decision != detail.of {
			return fmt.Errorf("%s has no %s: only %s has one", c.Decision, detail.name, detail.of)
		}
	}
	return nil
}

func (c Change) checkEnd(now time.Time) error {
	switch {
	case c.Until.IsZero() && c.Count == 0:
		return errors.New("expected a time or a number of failures at which the group is no longer muted")
	case c.Count < 0 || c.Count > MaxCount:
		return fmt.Errorf("%d failures: expected 1 to %d", c.Count, MaxCount)
	case !c.Until.IsZero() && !c.Until.After(now):
		return errors.New("nothing is muted until a time that has passed")
	case c.Until.Year() > 9999:
		return fmt.Errorf("muted until the year %d", c.Until.Year())
	}
	return nil
}

// isInvisible reports whether a character changes how others are shown, such as a bidirectional
// override.
func isInvisible(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

func (c Change) checkTexts() error {
	switch {
	case utf8.RuneCountInString(c.Assignee) > MaxAssignee:
		return fmt.Errorf("the assignee has %d characters: expected at most %d", utf8.RuneCountInString(c.Assignee), MaxAssignee)
	case !utf8.ValidString(c.Assignee) || strings.ContainsFunc(c.Assignee, isInvisible):
		return errors.New("the assignee: expected a name without control characters")
	case c.Decision == Noted:
		return reason.CheckText("note", c.Reason)
	}
	return reason.Check(c.Reason)
}

// Changes reports whether a change makes a difference to a group in a state.
func (c Change) Changes(s State) bool {
	switch c.Decision {
	case Unmuted:
		return s.Muted != nil
	case Assigned:
		return s.Assignee != strings.TrimSpace(c.Assignee)
	case Unassigned:
		return s.Assignee != ""
	}
	return true
}

// WhyUnchanged explains why Changes is false for a group.
func (c Change) WhyUnchanged() string {
	switch c.Decision {
	case Unmuted:
		return "is not muted"
	case Assigned:
		return "is assigned to " + strings.TrimSpace(c.Assignee)
	}
	return "has no assignee"
}

// Event returns the state of a `triaged` event of an operator's change of a group.
func (c Change) Event(of history.Kind, operator string, now time.Time) schemas.State {
	s := schemas.State{
		EventID: "triage:" + rand.Text(), Fingerprint: schemas.Envelope{}.Fingerprint(), Time: now, Queue: of.Queue,
		Failure: schemas.Failure{Type: of.Type, Class: of.Class, Message: of.Group},
	}
	s.Audit.User, s.Audit.Reason = operator, strings.TrimSpace(c.Reason)
	s.Triage.Group, s.Triage.Decision, s.Triage.Assignee = of.ID(), string(c.Decision), strings.TrimSpace(c.Assignee)
	s.Triage.Until, s.Triage.Count, s.Triage.UpTo = c.Until.UTC(), c.Count, c.UpTo
	return s
}
