package failures

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// State is the state of a group.
type State struct {
	Assignee string      `json:"assignee,omitempty" doc:"Who cares for the group"`
	Muted    *Mute       `json:"muted,omitempty" doc:"The group is muted"`
	Resolved *Resolution `json:"resolved,omitempty" doc:"The latest time at which an operator resolved the group"`
	Notes    []Note      `json:"notes" nullable:"false" doc:"The newest 100 notes, the oldest of them first"`
}

// Mute is the decision by which a group is muted.
type Mute struct {
	By       string     `json:"by"`
	Since    time.Time  `json:"since"`
	Reason   string     `json:"reason"`
	Until    *time.Time `json:"until,omitempty" doc:"Time at which it ends"`
	Count    int        `json:"count,omitempty" doc:"It ends with this further failure: 2 with the second"`
	Failures int        `json:"failures,omitempty" doc:"Failures of the group since then, if count is set"`

	sequence int64 // of the event
}

// Resolution is the decision by which a group was resolved.
type Resolution struct {
	By     string    `json:"by"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`

	sequence int64 // of the event
	upTo     int64 // sequence of the newest failure that it is about
}

// Note is a text about a group.
type Note struct {
	By   string    `json:"by"`
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// maxNotes bounds the notes of a group. The newest stay.
const maxNotes = 100

// States are the states of the groups about which there is a decision.
type States map[history.Kind]*State

// Store reads events.
type Store interface {
	history.EventStore
	history.Counter
}

// Read returns the states of groups, from the stored events that match a query. A decision about a
// group of another version of Watership is one about its successors, too. Groups that
// were muted up to a time before now, or to a number of failures that there were, are not muted. A
// decision that cannot be read, as of a newer version, counts for nothing.
func Read(ctx context.Context, store Store, within kql.Node, now time.Time) (States, error) {
	decisions, former, err := readDecisions(ctx, store, within)
	if err != nil {
		return nil, err
	}
	states := statesOf(decisions, former)
	return states, states.endMutes(ctx, store, now)
}

// readDecisions returns the events of decisions about groups, in their order, and the successors of
// the groups.
func readDecisions(ctx context.Context, store Store, within kql.Node) (decisions []schemas.Event, former map[history.Kind][]successor, err error) {
	selection := eventstore.Selection{
		Query: kql.And{kql.FieldIs("event.action", string(schemas.Triaged)), within}, Order: eventstore.BySequence, WithoutBody: true,
	}
	for e, err := range storeread.Readable(store.Events(ctx, selection)) {
		if err != nil {
			return nil, nil, err
		}
		if refused, is := e.Refused(); is {
			e = refused
		}
		decisions = append(decisions, e)
	}
	former, err = successors(ctx, store, within, decisions)
	return decisions, former, err
}

// Apply applies an event. Events come in the order of their sequences.
func (s States) Apply(e schemas.Event) {
	if refused, is := e.Refused(); is {
		e = refused
	}
	if e.Action != schemas.Triaged {
		return
	}
	s.applyTo(kindOf(e), e)
}

func (s States) applyTo(kind history.Kind, e schemas.Event) {
	if s[kind] == nil {
		s[kind] = &State{Notes: []Note{}}
	}
	s[kind].apply(e)
}

func (s *State) apply(e schemas.Event) {
	switch Decision(e.Triage.Decision) {
	case Assigned:
		s.Assignee = e.Triage.Assignee
	case Unassigned:
		s.Assignee = ""
	case Muted:
		s.Muted = &Mute{By: e.Audit.User, Since: e.Time, Reason: e.Audit.Reason, Count: e.Triage.Count, sequence: e.Sequence}
		if until := e.Triage.Until; !until.IsZero() {
			s.Muted.Until = &until
		}
	case Unmuted:
		s.Muted = nil
	case Noted:
		s.Notes = append(s.Notes, Note{By: e.Audit.User, Time: e.Time, Text: e.Audit.Reason})
		s.Notes = s.Notes[max(0, len(s.Notes)-maxNotes):]
	case Resolved:
		s.Resolved = &Resolution{By: e.Audit.User, Time: e.Time, Reason: e.Audit.Reason, sequence: e.Sequence, upTo: cmp.Or(e.Triage.UpTo, e.Sequence)}
		s.Muted = nil // a group that fails again after that is listed
	}
}

// endMutes ends the mutes whose time or count has passed.
func (s States) endMutes(ctx context.Context, store history.Counter, now time.Time) error {
	for kind, state := range s {
		m := state.Muted
		if m == nil {
			continue
		}
		if m.Until != nil && !m.Until.After(now) {
			state.Muted = nil
			continue
		}
		if m.Count == 0 {
			continue
		}
		n, err := store.Count(ctx, eventstore.Selection{Query: kql.And{kind.Query(), laterThan(m.sequence)}})
		if err != nil {
			return err
		}
		if m.Failures = int(n); m.Failures >= m.Count {
			state.Muted = nil
		}
	}
	return nil
}

func laterThan(sequence int64) kql.Node {
	return kql.Range{Field: kql.Pattern{"event.sequence"}, Op: kql.Greater, Value: kql.Value{Pattern: kql.Pattern{strconv.FormatInt(sequence, 10)}, Quoted: true}}
}

// IsMuted reports whether a group is muted.
func (s States) IsMuted(kind history.Kind) bool { return s[kind] != nil && s[kind].Muted != nil }

// Of returns the state of a group.
func (s States) Of(kind history.Kind) State {
	if state := s[kind]; state != nil {
		return *state
	}
	return State{Notes: []Note{}}
}

// Resolutions returns the sequences up to which operators resolved the failures of groups.
func (s States) Resolutions() map[history.Kind]int64 { return s.ResolutionsAfter(0) }

// ResolutionsAfter returns the sequences of Resolutions, of those whose events come after a
// sequence.
func (s States) ResolutionsAfter(sequence int64) map[history.Kind]int64 {
	found := map[history.Kind]int64{}
	for kind, state := range s {
		if state.Resolved != nil && state.Resolved.sequence > sequence {
			found[kind] = state.Resolved.upTo
		}
	}
	return found
}
