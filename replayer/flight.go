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
	inFlight    = 1000 // messages and bundles of events that wait for their confirm
	saveEvery   = 2000
	saveOften   = time.Second
	flightBytes = 64 << 20         // of bodies sent and not yet confirmed
	settleTime  = 10 * time.Second // for what is on its way when a job is stopped
)

// flight is a run of a job on one connection. Messages go through it in order:
//
//	feed ─► departed ─► confirm ─► confirmed ─► settle ─► settled ─► keep
//	read and publish    wait, and publish       wait for the events   count, save the
//	                    the `replayed` events                         checkpoint, make room
type flight struct {
	r       *Replayer
	line    *line
	options RunOptions
	order   Job  // as it was when the run began
	job     *Job // kept up to date by keep alone

	feeding     context.Context // ends when nothing more is to be sent
	stopFeeding context.CancelCauseFunc
	flying      context.Context // ends when what was sent is not waited for any more
	ground      context.CancelCauseFunc

	window            chan struct{} // a place for each message that is not in the saved checkpoint
	bytes             *semaphore.Weighted
	departed, settled chan *passage
	confirmed         chan *company
	landed            chan struct{} // closed when keep has ended

	// What follows is feed's.
	pace    *rate.Limiter
	reached map[string]bool // queues
	sentBy  *set            // what earlier runs sent, where the cursor does not tell
	begun   int             // messages of this run
}

// carry runs a job until there is nothing more to send, or something stops it.
func (r *Replayer) carry(ctx context.Context, l *line, job *Job, rivals []*Rival, o RunOptions) error {
	reading, sentBy, err := r.remember(ctx, l, job, rivals)
	if err != nil {
		return err
	}
	reading.line = l
	f := r.newFlight(ctx, l, job, o)
	f.sentBy = sentBy
	defer f.stopFeeding(nil)
	defer f.ground(nil)
	var work sync.WaitGroup
	work.Go(f.confirm)
	work.Go(f.settle)
	work.Go(f.keep)
	work.Go(f.watch)
	err = f.feed(reading)
	close(f.departed)
	work.Wait()
	if f.feeding.Err() != nil {
		err = context.Cause(f.feeding)
	}
	return err
}

func (r *Replayer) newFlight(ctx context.Context, l *line, job *Job, o RunOptions) *flight {
	f := &flight{
		r: r, line: l, options: o, order: *job, job: job,
		window:    make(chan struct{}, Window),
		bytes:     semaphore.NewWeighted(flightBytes),
		departed:  make(chan *passage, Window),
		confirmed: make(chan *company, Window),
		settled:   make(chan *passage, Window),
		landed:    make(chan struct{}),
		pace:      rate.NewLimiter(rate.Inf, 1),
		reached:   map[string]bool{},
	}
	if job.Rate > 0 {
		f.pace.SetLimit(rate.Limit(job.Rate))
	}
	f.feeding, f.stopFeeding = context.WithCancelCause(ctx)
	f.flying, f.ground = context.WithCancelCause(context.WithoutCancel(ctx))
	return f
}

// watch ends the flight when the connection is lost, and some time after
// nothing more is sent.
func (f *flight) watch() {
	select {
	case <-f.line.lost:
		f.stopFeeding(errLost)
		f.ground(errLost)
		return
	case <-f.feeding.Done():
	case <-f.landed:
		return
	}
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-f.line.lost:
	case <-timer.C:
	case <-f.landed:
	}
	f.ground(context.Cause(f.feeding))
}

// remember recalls while the job is seen to run.
func (r *Replayer) remember(ctx context.Context, l *line, job *Job, rivals []*Rival) (d *reading, sentBy *set, err error) {
	latest := *job // meanwhile the job itself is being saved
	err = r.alive(ctx, l.lost, job, func(ctx context.Context) error {
		d, sentBy, err = r.recall(ctx, l, &latest, rivals)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if latest.Uncertain && latest.Cursor == (schemas.Cursor{}) {
		job.beginAgain()
	}
	return d, sentBy, nil
}

// recall finds out what earlier runs of the job have sent. The cursor tells, and
// of what is beyond it the newest `replayed` events of the job, as far as they are
// in the store. Where the query finds other events up to the cursor than it did, the
// job begins again, and all of its `replayed` events tell.
func (r *Replayer) recall(ctx context.Context, l *line, job *Job, rivals []*Rival) (*reading, *set, error) {
	d, err := r.newReading(ctx, *job, rivals)
	if err != nil {
		return nil, nil, err
	}
	if job.Cursor != (schemas.Cursor{}) {
		same, err := d.rebuild(ctx, job.Cursor)
		if err != nil {
			return nil, nil, err
		}
		if !same {
			if err := r.awaitRecord(ctx, l, *job); err != nil {
				return nil, nil, err
			}
			job.beginAgain()
			return r.recall(ctx, l, job, rivals)
		}
	}
	sent, err := r.sentBy(ctx, *job)
	return d, sent, err
}

// errEnough ends the feeding of a job that has its limit.
var errEnough = errors.New("the limit of the job is reached")

// feed sends everything that the job has left, and what came to light while it
// did: bulks become visible out of order.
func (f *flight) feed(d *reading) error {
	err := f.pass(d, f.order.Cursor, false)
	for seen := d.seen; err == nil; {
		var count int64
		if count, err = d.count(f.feeding); err != nil || count <= seen {
			break
		}
		seen = count
		err = f.pass(d, schemas.Cursor{}, true)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// pass sends what the reading finds behind a cursor.
func (f *flight) pass(d *reading, after schemas.Cursor, late bool) error {
	for page, err := range d.pages(f.feeding, after) {
		if err != nil {
			return err
		}
		for i := range page {
			if err := f.consider(&page[i], late); err != nil {
				return err
			}
		}
	}
	return context.Cause(f.feeding)
}
