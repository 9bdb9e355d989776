package replaypage

import (
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/replayer"
)

// Job is a job as pages show it.
type Job struct{ replays.Job }

// Label returns the state; "interrupted" if the process of the job was killed.
func (j Job) Label() string {
	if j.State == replayer.Running && !j.Running {
		return "interrupted"
	}
	return string(j.State)
}

// Class is the style of the state's badge.
func (j Job) Class() string {
	switch {
	case j.State == replayer.Done && j.Failed == 0:
		return "good"
	case j.State == replayer.Failed, j.State == replayer.Done:
		return "bad"
	case j.CanResume:
		return "warn"
	}
	return ""
}

// To returns the target in words.
func (j Job) To() string {
	return j.Target.Replayer().String()
}

// Processed is the number of messages that were sent, left out or failed; Left is the
// number of the others.
func (j Job) Processed() int { return j.Sent + j.Skipped + j.Stopped + j.Failed }

// Left is the number of messages that the job has not come to.
func (j Job) Left() int { return max(0, j.Total-j.Processed()) }

// Duration is the time from the start to the end, or to the last save.
func (j Job) Duration() time.Duration {
	switch {
	case j.Started == nil:
		return 0
	case j.Ended != nil:
		return j.Ended.Sub(*j.Started)
	}
	return j.Updated.Sub(*j.Started)
}

// TimeLeft estimates when a job that runs is done; 0: not known.
func (j Job) TimeLeft() time.Duration {
	if !j.Running || j.Speed <= 0 {
		return 0
	}
	return time.Duration(float64(j.Left()) / j.Speed * float64(time.Second)).Round(time.Second)
}

// IsFinished reports whether the job can send nothing more.
func (j Job) IsFinished() bool {
	return j.State == replayer.Done || j.State == replayer.Cancelled
}

// IsCanary reports whether the job has sent as many messages as was asked for, and waits.
func (j Job) IsCanary() bool {
	return j.State == replayer.Paused && j.Problem == replayer.CanarySent
}

// StepEnd is the number of messages at which the present step of the job ends; 0: it has no step, or has ended.
func (j Job) StepEnd() int {
	if j.IsFinished() || j.Ramp == nil {
		return 0
	}
	return replayer.Job(j.Record).StepEnd()
}

// IsStopped reports whether the outcomes of a step have paused the job.
func (j Job) IsStopped() bool { return j.State == replayer.Paused && j.Record.Open.Stopped }

// Changed returns the changes of messages in words.
func (j Job) Changed() (lines []string) {
	add := func(format string, values ...string) {
		for _, value := range values {
			lines = append(lines, fmt.Sprintf(format, value))
		}
	}
	c := j.Changes
	switch {
	case c.ClearHeaders && len(c.KeepHeaders) > 0:
		add("all headers removed except %s", strings.Join(c.KeepHeaders, ", "))
	case c.ClearHeaders:
		lines = append(lines, "all headers removed")
	}
	add("header set: %s", c.SetHeaders...)
	add("header removed: %s", c.RemoveHeaders...)
	add("property set: %s", c.SetProperties...)
	add("property removed: %s", c.RemoveProperties...)
	if j.Transform != "" {
		lines = append(lines, "transformed by the program "+j.Transform)
	}
	lines = append(lines, replays.Words(j.Schedule)...)
	if !c.KeepReplyTo {
		lines = append(lines, "reply_to removed")
	}
	return lines
}
