package operation

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Runner runs jobs that requests start and that outlive them. Run has its goroutine, and ends
// when all jobs have stopped.
type Runner struct {
	starts chan start
	free   chan struct{} // has an element for each job that runs
}

// Job is run in a goroutine until it returns, or ctx ends.
type Job func(ctx context.Context, logger *slog.Logger)

// start is a request to run a job. err gets the reason why it is refused, or nil.
type start struct {
	job Job
	err chan error
}

// Reasons why a Runner refuses a job.
var (
	ErrStopping = errors.New("the server is stopping")
	ErrBusy     = errors.New("too many jobs are running")
)

// startTimeout is the longest wait for a server that starts or stops.
const startTimeout = 5 * time.Second

// NewRunner returns a runner of up to limit jobs at a time.
func NewRunner(limit int) *Runner { return &Runner{make(chan start), make(chan struct{}, limit)} }

// Start asks for a run of a job. Its error is ErrStopping or ErrBusy.
func (r *Runner) Start(ctx context.Context, job Job) error {
	asked := start{job, make(chan error, 1)}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case r.starts <- asked:
		return <-asked.err
	case <-ctx.Done():
		return ErrStopping
	}
}

// Run runs jobs until ctx ends, which stops them.
func (r *Runner) Run(ctx context.Context, logger *slog.Logger) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case s := <-r.starts:
			select {
			case r.free <- struct{}{}:
				s.err <- nil
			default:
				s.err <- ErrBusy
				continue
			}
			group.Go(func() {
				defer func() { <-r.free }()
				s.job(ctx, logger)
			})
		case <-ctx.Done():
			return
		}
	}
}
