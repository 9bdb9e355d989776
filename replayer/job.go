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

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// State says how far a job has come.
type State string

// A job is planned once it was agreed to. It may be resumed from any state but
// done and cancelled; running as well, where its runner was killed.
const (
	Planned   State = "planned"
	Running   State = "running"
	Paused    State = "paused" // stopped by an operator, or after its canaries
	Failed    State = "failed" // stopped by an error, which Problem tells
	Done      State = "done"   // also where some messages could not be sent
	Cancelled State = "cancelled"
)

// Job is one replay. Its document in the store is its JSON.
type Job struct {
	ID     string `json:"id"`    // "": Plan gives one
	Query  string `json:"query"` // in Kibana's language, with full names of fields and fixed times; see Fixed
	Target Target `json:"target"`

	// DSL is a query in the store's own language, as JSON, that must match as
	// well; nil: there is none. It must find the same whenever the job is resumed,
	// so a time in it is not to be relative.
	DSL json.RawMessage `json:"dsl,omitempty"`

	Changes  Changes `json:"changes,omitzero"`
	Again    bool    `json:"again,omitempty"` // also what was replayed, or resolved, before
	Limit    int     `json:"limit,omitempty"` // messages; 0: all
	Rate     float64 `json:"rate,omitempty"`  // messages a second; 0: as fast as the broker confirms
	UpTo     int64   `json:"up_to"`           // highest sequence; 0: Plan takes the highest stored
	Operator string  `json:"operator"`        // who began it
	Reason   string  `json:"reason,omitempty"`
	Total    int     `json:"total"` // messages to be sent, as planned

	// LeaveOut are the jobs whose messages this one leaves out, as it was planned.
	LeaveOut []string `json:"leave_out,omitempty"`

	State   State  `json:"state"`
	Runner  string `json:"runner,omitempty"`  // who runs it, or did last: one for each Run
	Problem string `json:"problem,omitempty"` // why it is not running

	Sent     int       `json:"sent"`    // confirmed, with their `replayed` events
	Skipped  int       `json:"skipped"` // replayed by another job since this one was planned
	Failed   int       `json:"failed"`
	Failures []Failure `json:"failures,omitempty"` // the first mostFailures

	// Cursor is the last message that Sent, Skipped or Failed count, and Seen how
	// many events the query found up to it.
	Cursor  schemas.Cursor `json:"cursor"`
	Scanned int64          `json:"seen"`

	// CursorInvalid: the query has found other events up to the cursor than before, so
	// that it did not tell what was sent. The job's `replayed` events do.
	CursorInvalid bool `json:"uncertain,omitempty"`

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // for the first time
	Updated time.Time `json:"updated"`
	Ended   time.Time `json:"ended,omitzero"`

	// Latest is the last message that could not be sent, for whoever follows a run.
	Latest Failure `json:"-"`

	version string
}

// Failure is a message that could not be sent.
type Failure struct {
	EventID string `json:"event_id"`
	Message string `json:"message,omitempty"` // its message id
	Reason  string `json:"reason"`
}

// maxFailures are listed in a job's document, which is written again and again.
const maxFailures = 1000

// heartbeatTimeout is how long a runner that lives may not be heard of.
const heartbeatTimeout = 30 * time.Second

// Running says whether somebody runs the job now, as far as its document tells:
// a runner that was killed says nothing any more.
func (j Job) Running(now time.Time) bool {
	return j.State == Running && now.Sub(j.Updated) < heartbeatTimeout
}

// sameWork says whether two jobs send the same messages in the same way.
func (j Job) sameWork(other Job) bool {
	return j.ID == other.ID && j.Query == other.Query && bytes.Equal(j.DSL, other.DSL) && j.Target.Equal(other.Target) &&
		j.Changes.equal(other.Changes) && j.Again == other.Again && j.Limit == other.Limit && j.Rate == other.Rate &&
		j.UpTo == other.UpTo && slices.Equal(j.LeaveOut, other.LeaveOut)
}

// Finished says that there is nothing more to do.
func (j Job) Finished() bool { return j.State == Done || j.State == Cancelled }

func (j Job) selection() (schemas.Selection, error) {
	node, err := query.Parse(j.Query)
	if err != nil {
		return schemas.Selection{}, fmt.Errorf("the query of job %s: %w", j.ID, err)
	}
	if len(j.DSL) > 0 {
		node = and(node, query.Raw{JSON: string(j.DSL)})
	}
	return schemas.Selection{Query: node, Order: schemas.BySequence, UpTo: j.UpTo}, nil
}

// restart goes back to the beginning, where the `replayed` events of the job tell
// what it has sent.
func (j *Job) restart() {
	j.CursorInvalid, j.Cursor, j.Scanned = true, schemas.Cursor{}, 0
	j.Sent, j.Skipped, j.Failed, j.Failures = 0, 0, 0, nil
}

func (j *Job) fail(f Failure) {
	j.Failed++
	j.Latest = f
	if len(j.Failures) < maxFailures {
		j.Failures = append(j.Failures, f)
	}
}

// NoJobError says that there is no job of that id.
type NoJobError struct{ ID string }

func (e *NoJobError) Error() string {
	return fmt.Sprintf("there is no job %q: `watership jobs list` lists them", e.ID)
}

// TakenOverError says that somebody else has changed a job meanwhile.
type TakenOverError struct{ ID string }

func (e *TakenOverError) Error() string {
	return fmt.Sprintf("job %s was changed by somebody else meanwhile: see `watership jobs show %[1]s`", e.ID)
}

// Create keeps the job of a plan, so that it can be run.
func (r *Replayer) Create(ctx context.Context, plan Plan) (Job, error) {
	job := plan.Job
	job.State, job.Total = Planned, plan.Total
	job.Created = r.now().UTC()
	job.Updated = job.Created
	document, err := json.Marshal(job)
	if err != nil {
		return Job{}, fmt.Errorf("writing job %s: %w", job.ID, err)
	}
	version, err := retry(ctx, connectTimeout, func() (string, error) { return r.create(ctx, job.ID, document) })
	if err != nil {
		return job, err
	}
	job, err = readJob(document) // as everybody reads it
	job.version = version
	return job, err
}

// create keeps a new job. Where an error says nothing about whether it is kept, it
// looks.
func (r *Replayer) create(ctx context.Context, id string, document []byte) (version string, err error) {
	version, failed := r.cfg.Jobs.CreateJob(ctx, id, document)
	if failed == nil {
		return version, nil
	}
	kept, version, err := r.cfg.Jobs.Job(ctx, id)
	if err == nil && bytes.Equal(kept, document) {
		return version, nil
	}
	return "", failed
}

// Job reads a job. It fails with a *NoJobError where there is none.
func (r *Replayer) Job(ctx context.Context, id string) (Job, error) {
	document, version, err := r.cfg.Jobs.Job(ctx, id)
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

// Jobs reads all jobs, the newest first. An error that is no *schemas.StoreError is
// about one job, and the reading goes on.
func (r *Replayer) Jobs(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for document, err := range r.cfg.Jobs.Jobs(ctx) {
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
	if err := json.Unmarshal(document, &job); err != nil {
		return Job{}, fmt.Errorf("job %q cannot be read: %w", job.ID, err)
	}
	return job, nil
}

// save fails with a *TakenOverError where somebody else has saved the job.
func (r *Replayer) save(ctx context.Context, job *Job) error {
	job.Updated = r.now().UTC()
	document, err := json.Marshal(job)
	if err != nil {
		return fmt.Errorf("writing job %s: %w", job.ID, err)
	}
	version, err := r.cfg.Jobs.SaveJob(ctx, job.ID, job.version, document)
	if err != nil {
		return err
	}
	if version == "" {
		return &TakenOverError{job.ID}
	}
	job.version = version
	return nil
}

// Cancel ends a job for good. Whoever runs it notices within a second or so.
func (r *Replayer) Cancel(ctx context.Context, id, why string) (Job, error) {
	for {
		job, err := r.Job(ctx, id)
		if err != nil {
			return Job{}, err
		}
		if job.Finished() {
			return job, fmt.Errorf("job %s is %s", id, job.State)
		}
		job.State, job.Problem, job.Ended = Cancelled, why, r.now().UTC()
		err = r.save(ctx, &job)
		var busy *TakenOverError
		if !errors.As(err, &busy) { // else its runner has saved it just now
			return job, err
		}
	}
}
