package failures

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// Bounds of reading the history of a group, whose newest failures count.
const (
	maxFollowed  = 20_000 // failures
	followChunk  = 1000   // failures of one query
	maxDiscards  = 2000   // discards whose reasons are read
	discardPause = time.Minute
)

// followUp is what became of the failures of a group, by the jobs and the discards.
type followUp struct {
	jobs     []*groupJob
	discards []HistoryEntry // one for all failures that were discarded at once
	cut      bool           // older failures, or older discards, were not looked up
}

// groupJob is a job with the messages of a group that it has sent.
type groupJob struct {
	id       string
	first    time.Time                            // its first `replayed` event
	messages map[string]map[string]schemas.Action // by the event that was replayed: the last report of each queue
}

// followUp reads the replays and discards of the failures of a group.
func (s Service) followUp(ctx context.Context, kind history.Kind, visible kql.Node) (found followUp, err error) {
	events, err := s.System.Store(ctx)
	if err != nil {
		return found, err
	}
	var ids []string
	for failure, err := range events.Summaries(ctx, eventstore.Selection{Query: kql.And{kind.Query(), visible}}) {
		if err != nil {
			return found, err
		}
		ids = append(ids, failure.EventID)
		if len(ids) == 2*maxFollowed {
			ids, found.cut = slices.Clone(ids[maxFollowed:]), true
		}
	}
	if len(ids) > maxFollowed {
		ids, found.cut = ids[len(ids)-maxFollowed:], true
	}
	jobs := map[string]*groupJob{}
	var discarded []string
	concerning := eventstore.Selection{Query: kql.And{visible, history.ReportedOr(schemas.Replayed, schemas.Discarded)}}
	for chunk := range slices.Chunk(ids, followChunk) {
		for e, err := range events.Summaries(ctx, concerning, eventstore.FieldIn{Field: "watership.replay.of", Values: chunk}) {
			switch {
			case err != nil:
				return found, err
			case e.Action == schemas.Discarded:
				discarded = append(discarded, e.EventID)
			case e.Replay != "":
				if jobs[e.Replay] == nil {
					jobs[e.Replay] = &groupJob{id: e.Replay, messages: map[string]map[string]schemas.Action{}}
					found.jobs = append(found.jobs, jobs[e.Replay])
				}
				jobs[e.Replay].add(e)
			}
		}
	}
	if len(discarded) > maxDiscards {
		discarded, found.cut = discarded[len(discarded)-maxDiscards:], true
	}
	found.discards, err = s.discards(ctx, discarded)
	return found, err
}

// add adds a `replayed` event of the job, or the report of a consumer.
func (j *groupJob) add(e eventstore.EventSummary) {
	if j.messages[e.ReplayOf] == nil {
		j.messages[e.ReplayOf] = map[string]schemas.Action{}
	}
	if e.Action != schemas.Replayed {
		j.messages[e.ReplayOf][e.Queue] = e.Action
		return
	}
	if j.first.IsZero() || e.Time.Before(j.first) {
		j.first = e.Time
	}
}

// discards returns the discards with some event ids. Discards of one operator with one reason within a
// minute are one entry.
func (s Service) discards(ctx context.Context, ids []string) (entries []HistoryEntry, err error) {
	events, err := s.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	latest := map[reason.Decision]int{} // places in entries
	var end []time.Time                 // of the entries
	for chunk := range slices.Chunk(ids, discardChunk) {
		var either kql.Or
		for _, id := range chunk {
			either = append(either, kql.FieldIs("event.id", id))
		}
		selection := eventstore.Selection{Query: either, Order: eventstore.BySequence, WithoutBody: true}
		for e, err := range storeread.Readable(events.Events(ctx, selection)) {
			if err != nil {
				return nil, err
			}
			d := reason.Parse(e.Failure.Message)
			at, known := latest[d]
			if !known || e.Time.Sub(end[at]) > discardPause {
				at = len(entries)
				latest[d], end = at, append(end, e.Time)
				entries = append(entries, HistoryEntry{Time: e.Time, What: discarded, By: d.Operator, Text: d.Reason})
			}
			entries[at].Failures++
			end[at] = e.Time
		}
	}
	return entries, nil
}

// jobs returns a function that reads the job with an id.
func (s Service) jobs(ctx context.Context) (func(id string) (job replayer.Job, found bool, err error), error) {
	events, err := s.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	jobs := replayer.New(replayer.Config{Store: events, Jobs: events, Topology: s.System.Topology()})
	return func(id string) (replayer.Job, bool, error) {
		job, err := jobs.Job(ctx, id)
		var none *replayer.NoJobError
		if errors.As(err, &none) {
			return job, false, nil
		}
		return job, err == nil, err
	}, nil
}

// kindOf returns the kind that a decision is about.
func kindOf(decision schemas.Event) history.Kind {
	return history.KindOf(eventstore.Summarize(decision))
}
