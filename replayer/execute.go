package replayer

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/schemas"
)

// Window is how many messages are sent and not yet in the saved checkpoint: after a
// crash at most so many come twice.
const Window = 4000

const (
	maxUnconfirmed      = 1000 // messages and bundles of events that wait for their confirm
	saveCount           = 2000
	saveInterval        = time.Second
	maxUnconfirmedBytes = 64 << 20         // of bodies sent and not yet confirmed
	drainTimeout        = 10 * time.Second // for what is on its way when a job is stopped
)

// run is a run of a job on one connection. Messages go through it in order:
//
//	feed ─► departed ─► confirm ─► confirmed ─► settle ─► settled ─► keep
//	read and publish    wait, and publish       wait for the events   count, save the
//	                    the `replayed` events                         checkpoint, make room
type run struct {
	replayer *Replayer
	lease    *lease
	options  RunOptions
	initial  Job  // as it was when the run began
	job      *Job // kept up to date by keep alone

	sending     context.Context // ends when nothing more is to be sent
	stopSending context.CancelCauseFunc
	confirming  context.Context // ends when what was sent is not waited for any more
	abort       context.CancelCauseFunc

	window              chan struct{} // a place for each message that is not in the saved checkpoint
	bytes               *semaphore.Weighted
	published, recorded chan *inFlight
	confirmed           chan *eventBatch
	done                chan struct{} // closed when keep has ended

	// What follows is feed's.
	limiter       *rate.Limiter
	reachedQueues map[string]bool // queues
	sentBy        *set            // what earlier runs sent, where the cursor does not tell
	started       int             // messages of this run
}

// execute runs a job until there is nothing more to send, or something stops it.
func (r *Replayer) execute(ctx context.Context, lease *lease, job *Job, rivals []*Rival, o RunOptions) error {
	scan, sentBy, err := r.restoreWithHeartbeat(ctx, lease, job, rivals)
	if err != nil {
		return err
	}
	scan.lease = lease
	run := r.newRun(ctx, lease, job, o)
	run.sentBy = sentBy
	defer run.stopSending(nil)
	defer run.abort(nil)
	var work sync.WaitGroup
	work.Go(run.confirm)
	work.Go(run.confirmEvents)
	work.Go(run.saveCheckpoints)
	work.Go(run.watch)
	err = run.sendAll(scan)
	close(run.published)
	work.Wait()
	if run.sending.Err() != nil {
		err = context.Cause(run.sending)
	}
	return err
}

func (r *Replayer) newRun(ctx context.Context, lease *lease, job *Job, o RunOptions) *run {
	run := &run{
		replayer: r, lease: lease, options: o, initial: *job, job: job,
		window:        make(chan struct{}, Window),
		bytes:         semaphore.NewWeighted(maxUnconfirmedBytes),
		published:     make(chan *inFlight, Window),
		confirmed:     make(chan *eventBatch, Window),
		recorded:      make(chan *inFlight, Window),
		done:          make(chan struct{}),
		limiter:       rate.NewLimiter(rate.Inf, 1),
		reachedQueues: map[string]bool{},
	}
	if job.Rate > 0 {
		run.limiter.SetLimit(rate.Limit(job.Rate))
	}
	run.sending, run.stopSending = context.WithCancelCause(ctx)
	run.confirming, run.abort = context.WithCancelCause(context.WithoutCancel(ctx))
	return run
}

// watch ends the flight when the connection is lost, and some time after
// nothing more is sent.
func (run *run) watch() {
	select {
	case <-run.lease.lost:
		run.stopSending(errLost)
		run.abort(errLost)
		return
	case <-run.sending.Done():
	case <-run.done:
		return
	}
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-run.lease.lost:
	case <-timer.C:
	case <-run.done:
	}
	run.abort(context.Cause(run.sending))
}

// restoreWithHeartbeat recalls while the job is seen to run.
func (r *Replayer) restoreWithHeartbeat(ctx context.Context, lease *lease, job *Job, rivals []*Rival) (s *scan, sentBy *set, err error) {
	latest := *job // meanwhile the job itself is being saved
	err = r.withHeartbeat(ctx, lease.lost, job, func(ctx context.Context) error {
		s, sentBy, err = r.restore(ctx, lease, &latest, rivals)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if latest.CursorInvalid && latest.Cursor == (schemas.Cursor{}) {
		job.restart()
	}
	return s, sentBy, nil
}

// restore finds out what earlier runs of the job have sent. The cursor tells, and
// of what is beyond it the newest `replayed` events of the job, as far as they are
// in the store. Where the query finds other events up to the cursor than it did, the
// job begins again, and all of its `replayed` events tell.
func (r *Replayer) restore(ctx context.Context, lease *lease, job *Job, rivals []*Rival) (*scan, *set, error) {
	s, err := r.newScan(ctx, *job, rivals)
	if err != nil {
		return nil, nil, err
	}
	if job.Cursor != (schemas.Cursor{}) {
		same, err := s.rebuild(ctx, job.Cursor)
		if err != nil {
			return nil, nil, err
		}
		if !same {
			if err := r.awaitRecord(ctx, lease, *job); err != nil {
				return nil, nil, err
			}
			job.restart()
			return r.restore(ctx, lease, job, rivals)
		}
	}
	sent, err := r.sentBy(ctx, *job)
	return s, sent, err
}

// errLimitReached ends the feeding of a job that has its limit.
var errLimitReached = errors.New("the limit of the job is reached")

// sendAll sends everything that the job has left, and what came to light while it
// did: bulks become visible out of order.
func (run *run) sendAll(s *scan) error {
	err := run.sendPages(s, run.initial.Cursor, false)
	for seen := s.scanned; err == nil; {
		var count int64
		if count, err = s.count(run.sending); err != nil || count <= seen {
			break
		}
		seen = count
		err = run.sendPages(s, schemas.Cursor{}, true)
	}
	if errors.Is(err, errLimitReached) {
		return nil
	}
	return err
}

// sendPages sends what the reading finds behind a cursor.
func (run *run) sendPages(s *scan, after schemas.Cursor, late bool) error {
	for page, err := range s.pages(run.sending, after) {
		if err != nil {
			return err
		}
		for i := range page {
			if err := run.sendOne(&page[i], late); err != nil {
				return err
			}
		}
	}
	return context.Cause(run.sending)
}
