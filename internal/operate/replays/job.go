package replays

import (
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/replayer"
)

// Job is a replay.
type Job struct {
	ID        string         `json:"id"`
	State     replayer.State `json:"state" enum:"planned,running,paused,failed,done,cancelled"`
	Running   bool           `json:"running" doc:"A process is sending its messages"`
	Problem   string         `json:"problem,omitempty" doc:"Why it does not run"`
	Group     string         `json:"group,omitempty" doc:"Id of the group of failures whose messages it sends; none: its query is another one"`
	Query     string         `json:"query" doc:"With full names and absolute times, and within the limits of the operator"`
	DSL       any            `json:"dsl,omitempty"`
	Target    Target         `json:"target"`
	Changes   Changes        `json:"changes"`
	Transform string         `json:"transform,omitempty" doc:"Program in the language of jq that changes each message"`
	Again     bool           `json:"again"`
	Limit     int            `json:"limit"`
	Rate      float64        `json:"rate"`
	Schedule
	Operator  string        `json:"operator"`
	Reason    string        `json:"reason,omitempty"`
	Total     int           `json:"total" doc:"Messages to send"`
	Sent      int           `json:"sent" doc:"Messages that RabbitMQ has confirmed"`
	Skipped   int           `json:"skipped" doc:"Messages that another job has replayed, or that were handled or discarded since the plan"`
	Stopped   int           `json:"stopped,omitempty" doc:"Messages that were left out, since an earlier message of their stream failed"`
	Filtered  int           `json:"filtered,omitempty" doc:"Messages that the program of transform left out; they are not in total"`
	Failed    int           `json:"failed" doc:"Messages that could not be sent"`
	Failures  []SendFailure `json:"failures" nullable:"false" doc:"The first 1000 of them"`
	Speed     float64       `json:"speed,omitempty" doc:"Messages per second of the current or last run"`
	Created   time.Time     `json:"created"`
	Started   *time.Time    `json:"started,omitempty"`
	Updated   time.Time     `json:"updated"`
	Ended     *time.Time    `json:"ended,omitempty"`
	CanResume bool          `json:"can_resume"`
	Steps     []RampStep    `json:"steps,omitempty" nullable:"false" doc:"Steps of ramp that have ended"`
	Record    JobRecord     `json:"record" doc:"The job as the store keeps it; its members may change with releases"`
}

// JobRecord is a job as the store keeps it.
type JobRecord replayer.Job

// Schema implements huma.SchemaProvider: the members are no part of the API.
func (JobRecord) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// SendFailure is a message that could not be sent.
type SendFailure struct {
	EventID   string `json:"event_id"`
	MessageID string `json:"message_id,omitempty"`
	Reason    string `json:"reason"`

	Cause replayer.Cause `json:"cause,omitempty" enum:"unroutable,nacked,refused,no_body,transform,redacted,erased" doc:"Kind of the reason"`
}

// NewJob returns the JSON of a job.
func NewJob(j replayer.Job) Job {
	now := time.Now()
	job := Job{
		ID: j.ID, State: j.State, Running: j.Running(now), Problem: j.Problem, Query: j.Query,
		Target: TargetOf(j.Target), Changes: ChangesOf(j), Transform: j.Transform, Filtered: j.Filtered,
		Again: j.Again, Limit: j.Limit, Rate: j.Rate, Schedule: ScheduleOf(j), Operator: j.Operator, Reason: j.Reason,
		Total: j.Total, Sent: j.Sent, Skipped: j.Skipped, Stopped: j.Stopped, Failed: j.Failed, Failures: []SendFailure{}, Speed: j.Speed(),
		Created: j.Created, Updated: j.Updated, CanResume: !j.Finished() && !j.Running(now), Record: JobRecord(j),
	}
	if len(j.DSL) > 0 {
		job.DSL = j.DSL
	}
	if kind, is := history.KindIn(j.Query); is {
		job.Group = kind.ID()
	}
	for _, s := range j.Steps {
		job.Steps = append(job.Steps, RampStep(s))
	}
	for _, f := range j.Failures {
		job.Failures = append(job.Failures, SendFailure{f.EventID, f.Message, f.Reason, f.Cause})
	}
	if !j.Started.IsZero() {
		job.Started = &j.Started
	}
	if !j.Ended.IsZero() {
		job.Ended = &j.Ended
	}
	return job
}

// Left returns the number of messages that a job has still to send.
func Left(j replayer.Job) int { return max(0, j.Total-j.Processed()) }

// EndedText says why a job that has ended cannot be resumed.
func EndedText(job replayer.Job) string {
	if job.State == replayer.Cancelled {
		return fmt.Sprintf("job %s is cancelled, which cannot be undone: start another replay for the messages that it has not sent", job.ID)
	}
	return fmt.Sprintf("job %s is %s: there is nothing left to do", job.ID, job.State)
}
