package failures

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// GetGroupHistory declares the operation.
var GetGroupHistory = operation.Declare[GroupInput, GroupHistoryOutput](operation.Operation{
	Method: http.MethodGet, Path: "/failures/groups/{group}/history", ID: "getGroupHistory", Tag: "failures", Role: access.Viewer, Timeout: time.Minute,
	Summary: "Get what operators did about a group: notes, decisions, discards and replays with their outcomes",
})

// GroupHistoryOutput has the history of a group.
type GroupHistoryOutput struct{ Body GroupHistory }

// GroupHistory is what operators did about a group of failures.
type GroupHistory struct {
	Entries []HistoryEntry `json:"entries" nullable:"false" doc:"The newest first"`
	More    bool           `json:"more" doc:"There are older entries, or more failures of the group than were looked up"`
}

// HistoryEntry is something that an operator did about a group.
type HistoryEntry struct {
	Time time.Time `json:"time" doc:"Of a replay: when it sent the first message of the group"`
	What Decision  `json:"what" enum:"assigned,unassigned,muted,unmuted,noted,resolved,discarded,replayed"`
	By   string    `json:"by,omitempty"`
	Text string    `json:"text,omitempty" doc:"Reason, or the text of the note"`

	Assignee string     `json:"assignee,omitempty" doc:"Of assigned"`
	Until    *time.Time `json:"until,omitempty" doc:"Of muted: time at which it ends"`
	Count    int        `json:"count,omitempty" doc:"Of muted: it ends with this further failure"`
	Failures int        `json:"failures,omitempty" doc:"Of resolved and discarded: failures of the group that were discarded"`

	Replay *GroupReplay `json:"replay,omitempty" doc:"Of replayed"`
}

// The subjects of a HistoryEntry, in addition to the decisions about a group.
const (
	discarded Decision = "discarded"
	replayed  Decision = "replayed"
)

// GroupReplay counts the messages of a group that a job has sent.
type GroupReplay struct {
	Job     string `json:"job" doc:"Id of the job"`
	State   string `json:"state,omitempty" doc:"Of the job; none: the store does not have it, or you may not see it"`
	Sent    int    `json:"sent" doc:"Messages of the group that it has sent"`
	Handled int    `json:"handled" doc:"Of these: handled"`
	Failed  int    `json:"failed" doc:"Of these: failed again"`
	Pending int    `json:"pending" doc:"Of these: no consumer has reported"`
}

// maxEntries bounds a history.
const maxEntries = 200

func (o operations) history(ctx context.Context, in *GroupInput) (*GroupHistoryOutput, error) {
	may, err := visible(ctx)
	if err != nil {
		return nil, err
	}
	kind, err := o.kind(ctx, in.Group, may)
	if err != nil {
		return nil, err
	}
	found, err := o.History(ctx, kind, may)
	return &GroupHistoryOutput{found}, err
}

// History returns what operators did about a group, as far as its events match visible.
func (s Service) History(ctx context.Context, kind history.Kind, visible kql.Node) (GroupHistory, error) {
	events, err := s.System.Store(ctx)
	if err != nil {
		return GroupHistory{}, err
	}
	decisions, former, err := readDecisions(ctx, events, visible)
	if err != nil {
		return GroupHistory{}, err
	}
	followed, err := s.followUp(ctx, kind, visible)
	if err != nil {
		return GroupHistory{}, err
	}
	found := GroupHistory{Entries: []HistoryEntry{}, More: followed.cut}
	discards := followed.discards
	for _, e := range decisions {
		if !isAbout(e, kind, former) {
			continue
		}
		entry := entryOf(e)
		if entry.What == Resolved {
			entry.Failures, discards = takeResolved(discards, entry)
		}
		found.Entries = append(found.Entries, entry)
	}
	found.Entries = append(found.Entries, discards...)
	for _, job := range followed.jobs {
		found.Entries = append(found.Entries, job.entry())
	}
	slices.SortStableFunc(found.Entries, func(a, b HistoryEntry) int { return b.Time.Compare(a.Time) })
	if len(found.Entries) > maxEntries {
		found.Entries, found.More = found.Entries[:maxEntries], true
	}
	return found, s.addJobs(ctx, found.Entries)
}

// isAbout reports whether a decision is about the failures of a kind.
func isAbout(e schemas.Event, kind history.Kind, former map[history.Kind][]successor) bool {
	return kindOf(e) == kind || slices.Contains(carriedTo(e, former), kind)
}

// entryOf returns the entry of a decision.
func entryOf(e schemas.Event) HistoryEntry {
	entry := HistoryEntry{
		Time: e.Time, What: Decision(e.Triage.Decision), By: e.Audit.User, Text: e.Audit.Reason, Assignee: e.Triage.Assignee, Count: e.Triage.Count,
	}
	if until := e.Triage.Until; !until.IsZero() {
		entry.Until = &until
	}
	return entry
}

// resolving is the time within which a resolution discards its failures.
const resolving = 10 * time.Minute

// takeResolved returns how many failures a resolution has discarded, and the other discards.
func takeResolved(discards []HistoryEntry, resolution HistoryEntry) (failures int, others []HistoryEntry) {
	for _, d := range discards {
		since := resolution.Time.Sub(d.Time)
		if since >= 0 && since < resolving && d.By == resolution.By && d.Text == resolution.Text {
			failures += d.Failures
			continue
		}
		others = append(others, d)
	}
	return failures, others
}

// entry returns the entry of a replay, without what only its job knows.
func (j *groupJob) entry() HistoryEntry {
	r := GroupReplay{Job: j.id}
	for _, reports := range j.messages {
		if r.Sent++; len(reports) == 0 {
			r.Pending++
			continue
		}
		handled := true
		for _, action := range reports {
			handled = handled && action == schemas.Handled
		}
		if handled {
			r.Handled++
		} else {
			r.Failed++
		}
	}
	return HistoryEntry{Time: j.first, What: replayed, Replay: &r}
}

// addJobs adds the states of the jobs of replays, for callers who may see them.
func (s Service) addJobs(ctx context.Context, entries []HistoryEntry) error {
	jobs, err := s.jobs(ctx)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		if e.Replay == nil {
			continue
		}
		job, found, err := jobs(e.Replay.Job)
		if err != nil {
			return err
		}
		if found && access.FromContext(ctx).Within(job.Query) {
			e.By, e.Text, e.Replay.State = job.Operator, job.Reason, string(job.State)
			e.Time = cmp.Or(e.Time, job.Created)
		}
	}
	return nil
}
