package replayer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/replayer/edit"
)

// State is the state of a job.
type State string

// A confirmed plan creates a job that is Planned. A job can be resumed in every state
// except Done and Cancelled; in Running, if its runner was killed.
const (
	Planned   State = "planned"
	Running   State = "running"
	Paused    State = "paused" // stopped by an operator, by its ramp, or after a number of messages
	Failed    State = "failed" // stopped by an error; see Problem
	Done      State = "done"   // even if some messages could not be sent
	Cancelled State = "cancelled"
)

// Job is one replay. Its JSON is its document in the store.
type Job struct {
	ID     string `json:"id"`    // "": Plan generates one
	Query  string `json:"query"` // KQL; Plan replaces short names of fields, and times relative to now
	Target Target `json:"target"`

	// DSL is an additional query in the language of the store, as JSON; nil: none. It
	// must select the same events when the job is resumed, so its times must be
	// absolute.
	DSL json.RawMessage `json:"dsl,omitempty"`

	Changes edit.Changes `json:"changes,omitzero"`

	// Transform is a program that changes each message after Changes, or leaves it out: see
	// package transform. "": none.
	Transform string `json:"transform,omitempty"`

	Again bool    `json:"again,omitempty"` // includes messages that were replayed or resolved before
	Limit int     `json:"limit,omitempty"` // messages; 0: all
	Rate  float64 `json:"rate,omitempty"`  // messages a second; 0: as fast as the broker confirms

	// Pace is the speed at which messages follow each other, as a multiple of the speed of
	// their events: 2 is twice as fast, and 0 does not wait. MaxGap bounds the time between
	// two messages; 0: no bound.
	Pace   float64       `json:"pace,omitempty"`
	MaxGap time.Duration `json:"max_gap,omitempty"`

	// InFlight is the maximum number of messages that were sent and about which no consumer
	// has reported; 0: no limit.
	InFlight int `json:"at_most_in_flight,omitempty"`

	// Order is ByStream for a message of a stream after the one before it was handled, ByVersion for the
	// messages of each stream by their versions; "": one message after the other, as they were recorded.
	// OnFailure is GoOn for streams that go on after a message that fails; "": they end there.
	Order     string `json:"order,omitempty"`
	OnFailure string `json:"on_failure,omitempty"`

	// Ramp has the steps in which messages are sent, Steps those that have ended, and Open the
	// present one.
	Ramp  Ramp     `json:"ramp,omitzero"`
	Steps []Step   `json:"steps,omitempty"`
	Open  OpenStep `json:"open,omitzero"`

	UpTo int64 `json:"up_to"` // highest sequence; 0: Plan uses the highest stored

	// DropReplyTo removes reply_to from each message, before Changes: the client of a
	// request has its reply, or waits no longer.
	DropReplyTo bool `json:"drop_reply_to,omitempty"`

	Operator string `json:"operator"` // the user who created the job
	Reason   string `json:"reason,omitempty"`
	Total    int    `json:"total"` // messages to send, by the plan

	// LeaveOut are the ids of competing jobs whose messages this job leaves out by its plan, and
	// LeftTo those whose messages its latest run leaves out.
	LeaveOut []string `json:"leave_out,omitempty"`
	LeftTo   []string `json:"left_to,omitempty"`

	State   State  `json:"state"`
	Runner  string `json:"runner,omitempty"`  // id of the current or last run
	Problem string `json:"problem,omitempty"` // why it does not run

	Sent     int       `json:"sent"`               // confirmed, with their `replayed` events
	Skipped  int       `json:"skipped"`            // replayed by another job, handled or discarded since the plan
	Stopped  int       `json:"stopped,omitempty"`  // left out after a failure in their stream
	Filtered int       `json:"filtered,omitempty"` // left out by Transform; not in Total
	Failed   int       `json:"failed"`
	Erased   int       `json:"erased,omitempty"`   // of Failed: messages that were erased, which no Ramp counts
	Failures []Failure `json:"failures,omitempty"` // the first maxFailures

	// Cursor is the last message that was counted or filtered, and Scanned the
	// number of events that the query found up to the cursor.
	Cursor  eventstore.Cursor `json:"cursor"`
	Scanned int64             `json:"scanned"`

	// CursorInvalid: the query finds other events up to the cursor than before, so the
	// cursor does not tell which messages were sent. The `replayed` events of the job
	// do.
	CursorInvalid bool `json:"cursor_invalid,omitempty"`

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // start of the first run

	// RunStarted is the start of the current or last run, and RunBegin is Processed then.
	RunStarted time.Time `json:"run_started,omitzero"`
	RunBegin   int       `json:"run_begin,omitempty"`

	Updated time.Time `json:"updated"`
	Ended   time.Time `json:"ended,omitzero"`

	// Latest is the last failure, for RunOptions.Progress.
	Latest Failure `json:"-"`

	version string
}

// Failure is a message that could not be sent.
type Failure struct {
	EventID string `json:"event_id"`
	Message string `json:"message,omitempty"` // message id
	Cause   Cause  `json:"cause,omitempty"`
	Reason  string `json:"reason"`           // in words
	Stream  string `json:"stream,omitempty"` // of the message
}

// maxFailures limits the size of a job's document, which is saved every second.
const maxFailures = 1000

// heartbeatTimeout is the age of the last save from which a runner counts as dead.
const heartbeatTimeout = 30 * time.Second

// Running reports whether the job runs, by its state and the time of its last save: a
// killed runner saves no more. A save that is as much later than now means nothing either, as it
// comes from another clock; the lease of the job decides then.
func (j Job) Running(now time.Time) bool {
	return j.State == Running && now.Sub(j.Updated).Abs() < heartbeatTimeout
}

// Processed is the number of messages that the job has sent, skipped, stopped or failed to send.
func (j Job) Processed() int { return j.Sent + j.Skipped + j.Stopped + j.Failed }

// Speed returns the messages per second of the current or last run; 0: not known.
func (j Job) Speed() float64 {
	seconds := j.Updated.Sub(j.RunStarted).Seconds()
	if j.RunStarted.IsZero() || seconds <= 0 {
		return 0
	}
	return float64(j.Processed()-j.RunBegin) / seconds
}

// sameWork reports whether two jobs send the same messages in the same way.
func (j Job) sameWork(other Job) bool {
	return j.ID == other.ID && j.Query == other.Query && bytes.Equal(j.DSL, other.DSL) && j.Target.Equal(other.Target) &&
		j.Changes.Equal(other.Changes) && j.Transform == other.Transform && j.DropReplyTo == other.DropReplyTo && j.Again == other.Again && j.Limit == other.Limit && j.Rate == other.Rate && j.Pace == other.Pace && j.MaxGap == other.MaxGap &&
		j.InFlight == other.InFlight && j.Order == other.Order && j.OnFailure == other.OnFailure && j.Ramp.Equal(other.Ramp) &&
		j.UpTo == other.UpTo && slices.Equal(j.LeaveOut, other.LeaveOut)
}

// Finished reports whether the job is Done or Cancelled.
func (j Job) Finished() bool { return j.State == Done || j.State == Cancelled }

// Selection returns the events that the query of the job selects.
func (j Job) Selection() (eventstore.Selection, error) {
	node, err := kql.Parse(j.Query)
	if err != nil {
		return eventstore.Selection{}, fmt.Errorf("the query of job %s: %w", j.ID, err)
	}
	if len(j.DSL) > 0 {
		node = and(node, kql.Raw{JSON: string(j.DSL)})
	}
	return eventstore.Selection{Query: node, Order: eventstore.BySequence, UpTo: j.UpTo}, nil
}

// restart resets the cursor and the counters. The `replayed` events of the job tell
// which messages it has sent.
func (j *Job) restart() {
	j.CursorInvalid, j.Cursor, j.Scanned = true, eventstore.Cursor{}, 0
	j.Sent, j.Skipped, j.Stopped, j.Filtered, j.Failed, j.Erased, j.Failures, j.RunBegin = 0, 0, 0, 0, 0, 0, nil, 0
	j.Open.Failed, j.Open.Erased = 0, 0 // messages that could not be sent are tried again, in the present step; sent ones count as Sent again
}

func (j *Job) fail(f Failure) {
	j.Failed++
	if f.Cause == SubjectErased {
		j.Erased++
	}
	j.Latest = f
	if len(j.Failures) < maxFailures {
		j.Failures = append(j.Failures, f)
	}
}

// NoJobError reports that the store has no job with this id.
type NoJobError struct{ ID string }

func (e *NoJobError) Error() string {
	return fmt.Sprintf("there is no job %q", e.ID)
}

// TakenOverError reports that another process has changed a job.
type TakenOverError struct{ ID string }

func (e *TakenOverError) Error() string {
	return fmt.Sprintf("job %s was changed by another process", e.ID)
}

// jobs are the jobs in a store.
type jobs struct {
	store Jobs
	now   func() time.Time
}

// Create stores the job of a plan, so that Run can run it.
func (j *jobs) Create(ctx context.Context, plan Plan) (Job, error) {
	job := plan.Job
	job.State, job.Total = Planned, plan.Matched
	job.Created = j.now().UTC()
	job.Updated = job.Created
	document, err := json.Marshal(job)
	if err != nil {
		return Job{}, fmt.Errorf("writing job %s: %w", job.ID, err)
	}
	version, err := storeread.Do(ctx, connectTimeout, func() (string, error) { return j.create(ctx, job.ID, document) })
	if err != nil {
		return job, err
	}
	job, err = readJob(document) // as a reader of the store sees it
	job.version = version
	return job, err
}

// create stores a new job. After an error it reads the job, since the store may have
// created it.
func (j *jobs) create(ctx context.Context, id string, document []byte) (version string, err error) {
	version, createErr := j.store.CreateJob(ctx, id, document)
	if createErr == nil {
		return version, nil
	}
	stored, version, err := j.store.Job(ctx, id)
	if err == nil && bytes.Equal(stored, document) {
		return version, nil
	}
	return "", createErr
}

// Job reads a job. The error is a *NoJobError if the store has none with this id.
func (j *jobs) Job(ctx context.Context, id string) (Job, error) {
	document, version, err := j.store.Job(ctx, id)
	if err != nil {
		return Job{}, err
	}
	if document == nil {
		return Job{}, &NoJobError{id}
	}
	job, err := readJob(document)
	job.version = version
	return job, err
}

// Jobs yields all jobs, the newest first. An error that is no *eventstore.Error
// concerns one job, and the sequence continues.
func (j *jobs) Jobs(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for document, err := range j.store.Jobs(ctx) {
			var job Job
			if err == nil {
				job, err = readJob(document)
			}
			if !yield(job, err) {
				return
			}
		}
	}
}

func readJob(document []byte) (Job, error) {
	var job Job
	former := struct {
		*Job
		Seen      int64 `json:"seen"`      // the former name of Scanned
		Uncertain bool  `json:"uncertain"` // of CursorInvalid
	}{Job: &job}
	if err := json.Unmarshal(document, &former); err != nil {
		return Job{}, fmt.Errorf("job %q cannot be read: %w", job.ID, err)
	}
	job.Scanned, job.CursorInvalid = max(job.Scanned, former.Seen), job.CursorInvalid || former.Uncertain
	return job, nil
}

// save writes the job. The error is a *TakenOverError if another process has saved it.
func (j *jobs) save(ctx context.Context, job *Job) error {
	job.Updated = j.now().UTC()
	document, err := json.Marshal(job)
	if err != nil {
		return fmt.Errorf("writing job %s: %w", job.ID, err)
	}
	version, err := j.store.SaveJob(ctx, job.ID, job.version, document)
	if err != nil {
		return err
	}
	if version == "" {
		return &TakenOverError{job.ID}
	}
	job.version = version
	return nil
}

// Cancel sets the state of a job to Cancelled. Its runner notices within about a
// second.
func (j *jobs) Cancel(ctx context.Context, id, why string) (Job, error) {
	for {
		job, err := j.Job(ctx, id)
		if err != nil {
			return Job{}, err
		}
		if job.Finished() {
			return job, fmt.Errorf("job %s is %s", id, job.State)
		}
		job.State, job.Problem, job.Ended = Cancelled, why, j.now().UTC()
		err = j.save(ctx, &job)
		var busy *TakenOverError
		if !errors.As(err, &busy) { // else its runner has just saved it
			return job, err
		}
	}
}
