package adoptions

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// Runner runs the adoptions that requests start.
type Runner struct {
	*operation.Runner // nil: an adoption is run in the call that starts it
	service           Service
	records           records
}

const (
	maxRuns      = 4 // at a time
	saveInterval = time.Second
	saveTimeout  = 10 * time.Second
)

// NewRunner returns the runner of a System.
func NewRunner(a *system.System) *Runner {
	return &Runner{operation.NewRunner(maxRuns), Service{a}, records{a}}
}

// InCalls returns the operations of a command, which runs an adoption in the call that starts it: until
// its end, or until the context of the call ends. No record of it is stored, so that it needs no store.
func InCalls(a *system.System) *Runner { return &Runner{nil, Service{a}, records{a}} }

// start asks for a run of an adoption.
func (r *Runner) start(ctx context.Context, adopter Adopter, a Adoption, version string) error {
	err := r.Start(ctx, func(ctx context.Context, logger *slog.Logger) {
		(&run{r.records, logger, adopter, a, version}).do(ctx)
	})
	switch {
	case errors.Is(err, operation.ErrStopping):
		return &problem.Problem{Code: code.Unavailable, Detail: "the server is stopping: nothing was taken in", Remedy: "Send the request again."}
	case errors.Is(err, operation.ErrBusy):
		return &problem.Problem{
			Code: code.Unavailable, Detail: "too many adoptions are running: nothing was taken in",
			Remedy: "Send the request again when one of them has ended.", RetryAfter: problem.RetryLater,
		}
	}
	return err
}

// run is one adoption under way.
type run struct {
	records  records
	logger   *slog.Logger
	adopter  Adopter
	adoption Adoption
	version  string
}

// errCancelled ends a run that was cancelled.
var errCancelled = errors.New("cancelled")

type outcome struct {
	result Result
	err    error
}

func (r *run) do(parent context.Context) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var failures atomic.Int64
	ended := make(chan outcome, 1)
	go func() { // ended is read before do returns
		result, err := r.adopter.Run(ctx, func(n int) { failures.Store(int64(n)) })
		ended <- outcome{result, err}
	}()
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.adoption.Failures = int(failures.Load())
			if r.save(ctx); r.adoption.CancelledBy != "" {
				cancel(errCancelled)
			}
		case o := <-ended:
			r.finish(ctx, o)
			return
		}
	}
}

func (r *run) finish(ctx context.Context, o outcome) {
	r.adoption.Result = o.result
	switch {
	case o.err == nil:
		r.adoption.end(Done, "", "")
	case errors.Is(context.Cause(ctx), errCancelled):
		r.adoption.end(Cancelled, ByCaller, "by "+r.adoption.CancelledBy)
	case ctx.Err() != nil:
		r.adoption.end(Interrupted, ServerStopped, "the server has stopped: what is left is still in the queue")
	default:
		r.adoption.end(Failed, ByError, o.err.Error())
	}
	ctx = context.WithoutCancel(ctx)
	for range 3 { // the first may find a request to cancel it
		if r.save(ctx) {
			r.deleteOld(ctx)
			return
		}
	}
	r.logger.Error("the end of an adoption was not saved", "adoption", r.adoption.ID, "queue", r.adoption.Queue, "failures", r.adoption.Failures)
}

func (r *run) deleteOld(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := r.records.deleteOld(ctx); err != nil {
		r.logger.Warn("old adoptions were not deleted", "error", err)
	}
}

// save saves the adoption and reports whether it could. It learns who asks to cancel it. The
// store may be away for a while.
func (r *run) save(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	r.adoption.Updated = time.Now().UTC()
	version, err := r.records.save(ctx, r.adoption, r.version)
	if err != nil {
		return false
	}
	if version != "" {
		r.version = version
		return true
	}
	saved, version, err := r.records.read(ctx, r.adoption.ID)
	if err == nil {
		r.adoption.CancelledBy, r.version = saved.CancelledBy, version
	}
	return false
}
