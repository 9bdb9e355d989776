// Package replays makes the jobs of replays from requests, runs those that requests of the
// HTTP API start, and has them as JSON.
package replays

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
)

// Runner runs jobs. Run has its goroutine, and ends when all jobs have stopped.
type Runner struct {
	system *system.System
	starts chan start
}

// maxRuns bounds the jobs that run at a time.
const maxRuns = 8

// startTimeout is the longest wait for a server that starts or stops.
const startTimeout = 5 * time.Second

// start is a request to run a job. err gets the reason why it is refused, or nil.
type start struct {
	job       replayer.Job
	stopAfter int
	err       chan error
}

// NewRunner returns the runner of a System.
func NewRunner(sys *system.System) *Runner { return &Runner{sys, make(chan start)} }

// Start asks for a run of a job. A job that another process runs is left to it.
func (r *Runner) Start(ctx context.Context, job replayer.Job, stopAfter int) error {
	asked := start{job, stopAfter, make(chan error, 1)}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case r.starts <- asked:
		return <-asked.err
	case <-ctx.Done():
		return &problem.Problem{Status: http.StatusServiceUnavailable, Detail: "the server is stopping, so job " + job.ID + " was not started", Remedy: "Resume the job."}
	}
}

// Run runs jobs until ctx ends, which pauses them.
func (r *Runner) Run(ctx context.Context, logger *slog.Logger) {
	var group sync.WaitGroup
	defer group.Wait()
	free := make(chan struct{}, maxRuns)
	for {
		select {
		case s := <-r.starts:
			select {
			case free <- struct{}{}:
				s.err <- nil
			default:
				s.err <- &problem.Problem{
					Status: http.StatusServiceUnavailable, Detail: "too many jobs are running, so job " + s.job.ID + " was not started",
					Remedy: "Resume the job when another one has ended.", RetryAfter: problem.RetryLater,
				}
				continue
			}
			group.Go(func() {
				defer func() { <-free }()
				r.runJob(ctx, logger, s)
			})
		case <-ctx.Done():
			return
		}
	}
}

// runJob logs only an error that left no trace in the job.
func (r *Runner) runJob(ctx context.Context, logger *slog.Logger, s start) {
	replays, err := Replayer(ctx, r.system)
	var ran replayer.Job
	if err == nil {
		ran, err = replays.Run(ctx, s.job.ID, replayer.RunOptions{StopAfter: s.stopAfter, Expected: &s.job})
	}
	var busy *replayer.BusyError
	if err != nil && ran.ID == "" && !errors.As(err, &busy) {
		logger.Error("a job did not start: resume it", "job", s.job.ID, "error", err)
	}
}
