package replayer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/internal/rabbit/tracing"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/replayer/internal/inflight"
	"github.com/watershipmq/watership/replayer/internal/lease"
	"github.com/watershipmq/watership/replayer/internal/pace"
)

// Window is the number of messages that a run sends beyond its saved checkpoint: a
// crash repeats at most as many.
const Window = 4000

const (
	maxUnconfirmed      = 1000 // messages and event batches without a confirm
	checkpointSize      = 2000 // messages
	saveInterval        = time.Second
	maxUnconfirmedBytes = 64 << 20         // of bodies without a confirm
	drainTimeout        = 10 * time.Second // for outstanding confirms when a job is stopped
)

// run is one run of a job on one connection. Messages pass through it in order:
//
//	sendAll ─► published ─► confirm ─► confirmed ─► confirmEvents ─► recorded ─► countOutcomes
//	read and publish        wait, and publish       wait for the events          count, save the
//	                        the `replayed` events                                checkpoint, make room
type run struct {
	replayer *Replayer
	lease    *lease.Lease
	options  RunOptions
	tracer   *tracing.Tracer
	initial  Job  // the job at the start of the run
	job      *Job // changed by countOutcomes alone

	sending     context.Context // ends when the run stops sending
	stopSending context.CancelCauseFunc
	confirming  context.Context // ends when the run stops waiting for confirms
	abort       context.CancelCauseFunc

	window              chan struct{} // one element for each message after the saved checkpoint
	unconfirmedBytes    *semaphore.Weighted
	published, recorded chan *inFlight
	confirmed           chan *eventBatch
	done                chan struct{} // closed when countOutcomes returns
	unsent              atomic.Int64  // messages of this run that could not be sent

	// The remaining fields belong to sendAll.
	limiter     *rate.Limiter
	messages    converter
	pacer       pace.Pacer
	sender      *inflight.Sender[*inFlight] // nil: messages are sent at once
	versions    *versionOrder               // nil: in the order of the scan
	boundQueues map[string]bool             // for direct delivery
	sentBy      *storeread.Set              // messages of earlier runs that the cursor does not cover
	started     int                         // messages of this run
	erased      int                         // of them
	admitted    int64                       // messages of this run, with those that the program leaves out
}

// execute sends the messages of a job until none is left or an error stops it.
func (r *Replayer) execute(ctx context.Context, l *lease.Lease, job *Job, rivals []*Rival, o RunOptions) error {
	scan, sentBy, err := r.restoreWithHeartbeat(ctx, l, job, rivals)
	if err != nil {
		return err
	}
	scan.lease, scan.withBodies = l, true
	run, err := r.newRun(ctx, l, job, o)
	if err != nil {
		return err
	}
	err = r.withHeartbeat(ctx, l.Lost(), job, func(ctx context.Context) error {
		if run.sender, err = run.newSender(ctx); err == nil {
			run.versions, err = run.newVersionOrder(ctx, rivals)
		}
		return err
	})
	if err != nil {
		return err
	}
	run.sentBy = sentBy
	defer run.stopSending(nil)
	defer run.abort(nil)
	var work sync.WaitGroup
	work.Go(run.confirm)
	work.Go(run.confirmEvents)
	work.Go(run.countOutcomes)
	work.Go(run.watch)
	judging, endJudging := context.WithCancel(run.sending)
	defer endJudging()
	var judge sync.WaitGroup
	if len(job.Ramp.StopIf) > 0 {
		judge.Go(func() { run.judgeWhileSending(judging) })
	}
	err = run.sendAll(scan)
	close(run.published)
	work.Wait()
	endJudging()
	judge.Wait()
	if run.sending.Err() != nil {
		err = context.Cause(run.sending)
	}
	return err
}

func (r *Replayer) newRun(ctx context.Context, l *lease.Lease, job *Job, o RunOptions) (*run, error) {
	tracer, err := tracing.New(tracing.Config{Spans: r.cfg.TracerProvider, Bare: r.cfg.BareSpans})
	if err != nil {
		return nil, err
	}
	run := &run{
		replayer: r, lease: l, options: o, tracer: tracer, initial: *job, job: job,
		window:           make(chan struct{}, Window),
		unconfirmedBytes: semaphore.NewWeighted(maxUnconfirmedBytes),
		published:        make(chan *inFlight, Window),
		confirmed:        make(chan *eventBatch, Window),
		recorded:         make(chan *inFlight, Window),
		done:             make(chan struct{}),
		limiter:          rate.NewLimiter(rate.Inf, 1),
		boundQueues:      map[string]bool{},
		pacer:            pace.Pacer{Factor: job.Pace, MaxGap: job.MaxGap},
	}
	if job.Rate > 0 {
		run.limiter.SetLimit(rate.Limit(job.Rate))
	}
	if run.messages, err = newConverter(r.cfg, &run.initial); err != nil {
		return nil, err
	}
	run.sending, run.stopSending = context.WithCancelCause(ctx)
	run.confirming, run.abort = context.WithCancelCause(context.WithoutCancel(ctx))
	return run, nil
}

// watch aborts the run when the connection is lost, and drainTimeout after it stopped
// sending.
func (run *run) watch() {
	select {
	case <-run.lease.Lost():
		run.stopSending(exclusive.ErrLost)
		run.abort(exclusive.ErrLost)
		return
	case <-run.sending.Done():
	case <-run.done:
		return
	}
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-run.lease.Lost():
	case <-timer.C:
	case <-run.done:
	}
	run.abort(context.Cause(run.sending))
}

// restoreWithHeartbeat runs restore with heartbeats of the job.
func (r *Replayer) restoreWithHeartbeat(ctx context.Context, l *lease.Lease, job *Job, rivals []*Rival) (s *scan, sentBy *storeread.Set, err error) {
	latest := *job // a copy, since heartbeats save the job concurrently
	err = r.withHeartbeat(ctx, l.Lost(), job, func(ctx context.Context) error {
		s, sentBy, err = r.restore(ctx, l, &latest, rivals)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if latest.CursorInvalid && latest.Cursor == (eventstore.Cursor{}) {
		job.restart()
	}
	return s, sentBy, nil
}

// restore finds the messages that earlier runs of the job have sent: those up to the
// cursor, and the newest `replayed` events in the store. If the query finds
// other events up to the cursor than before, the job restarts and relies on all of its
// `replayed` events.
func (r *Replayer) restore(ctx context.Context, l *lease.Lease, job *Job, rivals []*Rival) (*scan, *storeread.Set, error) {
	s, err := r.newScan(ctx, *job, rivals)
	if err != nil {
		return nil, nil, err
	}
	if job.Cursor != (eventstore.Cursor{}) {
		same, err := s.restoreDecisions(ctx, job.Cursor)
		if err != nil {
			return nil, nil, err
		}
		if !same {
			if err := r.awaitRecord(ctx, l, *job); err != nil {
				return nil, nil, fmt.Errorf("the query of job %s finds other events than before: %w", job.ID, err)
			}
			job.restart()
			return r.restore(ctx, l, job, rivals)
		}
	}
	sent, err := sentBy(ctx, r.cfg.Store, *job)
	return s, sent, err
}

// errLimitReached ends sendAll at the limit of the job.
var errLimitReached = errors.New("the limit of the job is reached")

// sendAll sends the remaining messages of the job, including those that became visible
// after the cursor had passed: bulk requests may commit out of order.
func (run *run) sendAll(s *scan) error {
	err := run.sendPages(s, run.initial.Cursor, false)
	for seen := s.scanned; err == nil; {
		var count int64
		if count, err = s.count(run.sending); err != nil || count <= seen {
			break
		}
		seen = count
		err = run.sendPages(s, eventstore.Cursor{}, true)
	}
	if run.sender != nil && (err == nil || errors.Is(err, errLimitReached) || errors.Is(err, errStopAfter) || errors.Is(err, errStepSent)) {
		err = errors.Join(err, run.sender.Drain(run.sending))
	}
	if errors.Is(err, errLimitReached) {
		return nil
	}
	return err
}

// sendPages sends the messages of a scan after a cursor.
func (run *run) sendPages(s *scan, after eventstore.Cursor, late bool) error {
	for page, err := range s.pages(run.sending, after) {
		if err != nil {
			return err
		}
		for i := range page {
			if err := run.sendFirst(page[i:], late); err != nil {
				return err
			}
			if err := run.admitAll(run.versions.passed(&page[i])); err != nil {
				return err
			}
		}
	}
	if err := run.admitAll(run.versions.rest()); err != nil {
		return err
	}
	return context.Cause(run.sending)
}
