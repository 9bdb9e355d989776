package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Reports reads what consumers report about the messages of a job while it runs. It is not
// safe for concurrent use.
type Reports struct {
	store  EventStore
	job    Job
	exists func(ctx context.Context, queue string) (bool, error)
	before map[string]map[string]bool // queues that reported before the job, by fingerprint
}

// NewReports returns the Reports of a job. exists reports whether a queue still exists, as one that
// was deleted will not report again; each Read calls it once for each queue that is silent. Nil: all exist.
func NewReports(store EventStore, job Job, exists func(ctx context.Context, queue string) (bool, error)) *Reports {
	return &Reports{store, job, exists, map[string]map[string]bool{}}
}

// SentMessage is a message that a job has sent.
type SentMessage struct {
	EventID     string // of the event that it replays
	Fingerprint string // of the same event
	Stream      string
}

// Report has the reports of consumers about a message since a job sent it.
type Report struct {
	// Reported: at least one queue has reported, and each queue that exists and reported before
	// the job. Final: and none of them will try the message again.
	Reported bool
	Final    bool

	Failed bool // a queue gave the message up
}

// Read returns the reports about some messages by their event ids.
func (r *Reports) Read(ctx context.Context, messages []SentMessage) (map[string]Report, error) {
	latest, err := r.latest(ctx, messages)
	if err == nil {
		err = r.readBefore(ctx, messages)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up the reports about the messages of job %s: %w", r.job.ID, err)
	}
	reports, known := map[string]Report{}, map[string]bool{}
	for _, m := range messages {
		queues := latest[m.EventID]
		if len(queues) == 0 {
			continue
		}
		silent, err := r.isSilent(ctx, queues, r.before[m.Fingerprint], known)
		if err != nil {
			return nil, fmt.Errorf("looking up the queues of job %s: %w", r.job.ID, err)
		}
		reports[m.EventID] = reportOf(queues, silent)
	}
	return reports, nil
}

func reportOf(latest map[string]schemas.Action, isSilent bool) Report {
	report := Report{Reported: !isSilent, Final: !isSilent}
	for _, action := range latest {
		report.Final = report.Final && action != schemas.RetryScheduled
		report.Failed = report.Failed || action == schemas.Poisoned
	}
	return report
}

// latest returns the latest reports about messages, by event id and queue.
func (r *Reports) latest(ctx context.Context, messages []SentMessage) (map[string]map[string]schemas.Action, error) {
	if err := r.store.Refresh(ctx); err != nil {
		return nil, err
	}
	latest := map[string]map[string]schemas.Action{}
	selection := eventstore.Selection{Query: kql.And{kql.FieldIs("watership.replay.job", r.job.ID), withActions(reportActions()...)}}
	for some := range slices.Chunk(messages, chunkSize) {
		ids := eventstore.FieldIn{Field: "watership.replay.of"}
		for _, m := range some {
			ids.Values = append(ids.Values, m.EventID)
		}
		for e, err := range r.store.Summaries(ctx, selection, ids) {
			if err != nil {
				return nil, err
			}
			if latest[e.ReplayOf] == nil {
				latest[e.ReplayOf] = map[string]schemas.Action{}
			}
			latest[e.ReplayOf][e.Queue] = e.Action
		}
	}
	return latest, nil
}

// readBefore reads the queues that reported about messages before the job was planned, once
// for each message, and forgets the reports of other messages.
func (r *Reports) readBefore(ctx context.Context, messages []SentMessage) error {
	if !r.job.ToOrigin {
		return nil
	}
	before := map[string]map[string]bool{}
	unread := eventstore.FieldIn{Field: "watership.fingerprint"}
	for _, m := range messages {
		queues := r.before[m.Fingerprint]
		if queues == nil && before[m.Fingerprint] == nil {
			queues = map[string]bool{}
			unread.Values = append(unread.Values, m.Fingerprint)
		}
		if queues != nil {
			before[m.Fingerprint] = queues
		}
	}
	selection := eventstore.Selection{Query: withActions(reportActions()...), UpTo: r.job.UpTo}
	for some := range slices.Chunk(unread.Values, chunkSize) {
		for e, err := range r.store.Summaries(ctx, selection, eventstore.FieldIn{Field: unread.Field, Values: some}) {
			if err != nil {
				return err
			}
			before[e.Fingerprint][e.Queue] = true
		}
	}
	r.before = before
	return nil
}

// isSilent reports whether a queue that exists reported before and has not reported yet. It adds to known whether queues
// exist.
func (r *Reports) isSilent(ctx context.Context, latest map[string]schemas.Action, before, known map[string]bool) (bool, error) {
	for queue := range before {
		if _, reported := latest[queue]; reported {
			continue
		}
		exists, isKnown := known[queue]
		if !isKnown {
			exists = true
			if r.exists != nil {
				var err error
				if exists, err = r.exists(ctx, queue); err != nil {
					return false, err
				}
			}
			known[queue] = exists
		}
		if exists {
			return true, nil
		}
	}
	return false, nil
}

// Unfinished returns the messages that the job has sent in earlier runs and about which
// there is no report for which isFinished is true, and the streams with a message that a
// queue gave up. Of the messages with a report, it looks at the newest ones only.
func (r *Reports) Unfinished(ctx context.Context, newest int, isFinished func(Report) bool) (unfinished []SentMessage, failed map[string]bool, err error) {
	sent, failed, err := r.sent(ctx, newest)
	if err != nil {
		return nil, nil, fmt.Errorf("looking up the messages of job %s: %w", r.job.ID, err)
	}
	reports, err := r.Read(ctx, sent)
	for _, m := range sent {
		if !isFinished(reports[m.EventID]) {
			unfinished = append(unfinished, m)
		}
	}
	return unfinished, failed, err
}

// sent returns the messages of the job without a report, and the newest ones with one.
func (r *Reports) sent(ctx context.Context, newest int) (sent []SentMessage, failed map[string]bool, err error) {
	if err := r.store.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	failures := map[string]map[string]string{} // streams by replayed event and queue
	open, reported := map[string]SentMessage{}, map[string]bool{}
	var order []string
	selection := eventstore.Selection{Query: kql.And{kql.FieldIs("watership.replay.job", r.job.ID), withActions(append(reportActions(), schemas.Replayed)...)}}
	for e, err := range r.store.Summaries(ctx, selection) {
		if err != nil {
			return nil, nil, err
		}
		switch e.Action {
		case schemas.Replayed:
			open[e.ReplayOf] = SentMessage{e.ReplayOf, e.Fingerprint, e.Stream.ID}
			order = append(order, e.ReplayOf)
			for queue := range failures[e.ReplayOf] {
				failures[e.ReplayOf][queue] = e.Stream.ID
			}
		case schemas.Poisoned:
			if failures[e.ReplayOf] == nil {
				failures[e.ReplayOf] = map[string]string{}
			}
			failures[e.ReplayOf][e.Queue] = cmp.Or(open[e.ReplayOf].Stream, e.Stream.ID) // a program may have changed the field that names the stream
			reported[e.ReplayOf] = true
		default:
			delete(failures[e.ReplayOf], e.Queue)
			reported[e.ReplayOf] = true
		}
		for len(order) > newest && reported[order[0]] {
			delete(open, order[0])
			delete(reported, order[0])
			order = order[1:]
		}
	}
	failed = map[string]bool{}
	for _, queues := range failures {
		for _, stream := range queues {
			failed[stream] = true
		}
	}
	delete(failed, "")
	for _, id := range order {
		if m, isOpen := open[id]; isOpen {
			sent = append(sent, m)
		}
	}
	return sent, failed, nil
}
