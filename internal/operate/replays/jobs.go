// Package replays makes the jobs of replays from requests, runs those that requests of the
// HTTP API start, and has them as JSON.
package replays

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/gctuning"
	"github.com/watershipmq/watership/replayer"
)

// Runner runs jobs until its context ends, which pauses them.
type Runner struct {
	*operation.Runner
	system *system.System
}

// maxRuns bounds the jobs that run at a time.
const maxRuns = 8

// NewRunner returns the runner of a System.
func NewRunner(sys *system.System) *Runner { return &Runner{operation.NewRunner(maxRuns), sys} }

// Start asks for a run of a job. A job that another process runs is left to it.
func (r *Runner) Start(ctx context.Context, job replayer.Job, stopAfter int) error {
	if job.Running(time.Now()) {
		return &replayer.BusyError{ID: job.ID}
	}
	err := r.Runner.Start(ctx, func(ctx context.Context, logger *slog.Logger) { r.runJob(ctx, logger, job, stopAfter) })
	switch {
	case errors.Is(err, operation.ErrStopping):
		return &problem.Problem{Code: code.Unavailable, Detail: "the server is stopping, so job " + job.ID + " was not started", Remedy: "Resume the job."}
	case errors.Is(err, operation.ErrBusy):
		return &problem.Problem{
			Code: code.Unavailable, Detail: "too many jobs are running, so job " + job.ID + " was not started",
			Remedy: "Resume the job when another one has ended.", RetryAfter: problem.RetryLater,
		}
	}
	return err
}

// runJob logs only an error that left no trace in the job.
func (r *Runner) runJob(ctx context.Context, logger *slog.Logger, job replayer.Job, stopAfter int) {
	replays, err := Replayer(ctx, r.system)
	var ran replayer.Job
	if err == nil {
		ran, err = replays.Run(ctx, job.ID, replayer.RunOptions{StopAfter: stopAfter, Expected: &job})
	}
	var busy *replayer.BusyError
	if err != nil && ran.ID == "" && !errors.As(err, &busy) {
		logger.Error("a job did not start: resume it", "job", job.ID, "error", err)
	}
}

// ByWatcher is the Starter of a process without a Runner: who watches a job runs it.
type ByWatcher struct{}

// Start implements Starter.
func (ByWatcher) Start(context.Context, replayer.Job, int) error { return nil }

// Watch runs a job that was started or resumed, and reports its progress. It returns the job as it
// was before if it could not be read.
func (ByWatcher) Watch(ctx context.Context, sys *system.System, job replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
	jobs, err := Replayer(ctx, sys)
	if err != nil {
		return job, err
	}
	gctuning.Apply(gctuning.ReplayLimit)
	ran, err := jobs.Run(ctx, job.ID, replayer.RunOptions{StopAfter: stopAfter, Expected: &job, Progress: progress})
	if ran.ID == "" {
		ran = job
	}
	return ran, err
}
