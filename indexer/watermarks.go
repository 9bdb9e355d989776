package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"

	"github.com/watershipmq/watership/eventstore"
)

const (
	saveInterval  = 100 * time.Millisecond // while events are written
	claimInterval = time.Second            // to save unchanged watermarks, too
	readInterval  = 5 * time.Second        // without a claim
	saveTimeout   = 5 * time.Second

	// A bulk request is sent at most claimValidity after its session has saved its entry.
	// A session that replaces another one holds the watermark for formerSessionWait, so that
	// the last requests of the former session are done by then.
	claimValidity     = 2 * time.Second
	formerSessionWait = 5 * time.Second

	maxSaveConflicts = 20
)

// watermarks are the watermarks of the source, as this process reads and changes them.
type watermarks struct {
	*Indexer
	clock *clock

	requests *semaphore.Weighted // held during requests; guards the fields below
	record   eventstore.Watermarks
	version  string               // of record, as the store has it; "": no record
	current  bool                 // record is probably the last version
	seen     map[string]seenEntry // entries of other processes

	failing  bool // only savePeriodically uses it
	inspect  inspectFunc
	broker   atomic.Pointer[string]
	complete atomic.Int64 // the lowest watermark; 0: no queue has a session

	mu     sync.Mutex // guards claims, and the fields that claim and batch say
	claims map[string]*claim
	moved  chan struct{} // a watermark can move
}

func newWatermarks(x *Indexer) *watermarks {
	promauto.With(x.cfg.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "watership", Subsystem: "index", Name: "watermark_age_seconds",
		Help: "Age of the watermark, up to which every event is stored: so long ago were the newest events that readers may read; 0 if no queue is indexed.",
	}, func() float64 { return x.WatermarkAge().Seconds() })
	return &watermarks{
		Indexer: x, clock: &x.sequence, requests: semaphore.NewWeighted(1),
		seen: map[string]seenEntry{}, inspect: x.inspectQueue,
		claims: map[string]*claim{}, moved: make(chan struct{}, 1),
	}
}

// start saves the watermarks until stop is called, which is after the end of the sessions.
func (w *watermarks) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { w.savePeriodically(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (w *watermarks) savePeriodically(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		if err := w.saveOrRead(ctx); err != nil && ctx.Err() == nil {
			w.metrics.watermarkFailures.Inc()
			began = time.Now().Add(claimInterval)
		}
		select {
		case <-w.moved:
			_ = pause(ctx, 1, time.Until(began.Add(saveInterval)))
		case <-time.After(w.interval()):
		case <-ctx.Done():
		}
	}
}

func (w *watermarks) interval() time.Duration {
	if w.claimed() {
		return claimInterval
	}
	return readInterval
}

func (w *watermarks) claimed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.claims) > 0
}

// saveOrRead saves the claims of the process, or reads the claims of others, and releases
// abandoned entries.
func (w *watermarks) saveOrRead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	err := w.save(ctx)
	if err == nil {
		err = w.releaseAbandoned(ctx)
	}
	if failed := err != nil; failed != w.failing && !errors.Is(ctx.Err(), context.Canceled) {
		w.failing = failed
		if failed {
			w.cfg.Logger.Warn("cannot save the watermarks; readers of new events wait", "error", err)
		} else {
			w.cfg.Logger.Info("saving the watermarks again")
		}
	}
	return err
}

// save saves the claims of the process, or reads the record if it has none.
func (w *watermarks) save(ctx context.Context) error {
	if err := w.requests.Acquire(ctx, 1); err != nil {
		return err
	}
	defer w.requests.Release(1)
	w.current = w.current && w.claimed()
	began := time.Now()
	var entered []*claim
	err := w.update(ctx, func(queues map[string]eventstore.Watermark) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		entered = entered[:0]
		for queue, c := range w.claims {
			w.advanceLocked(c)
			queues[queue] = eventstore.Watermark{Session: c.session, Sequence: c.watermark, Updated: time.Now().UTC()}
			entered = append(entered, c)
		}
		return len(entered) > 0
	})
	if err != nil {
		return err
	}
	w.observe()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range entered {
		c.confirmed = began
	}
	return nil
}

// claim enters a session into the watermarks. The watermark of a former session stays, since
// it may have left events without a result. Otherwise it becomes a sequence that all later
// ones are above.
func (w *watermarks) claim(ctx context.Context, c *claim) error {
	if err := w.requests.Acquire(ctx, 1); err != nil {
		return err
	}
	defer w.requests.Release(1)
	began := time.Now()
	err := w.update(ctx, func(queues map[string]eventstore.Watermark) bool {
		former := queues[c.queue]
		if c.replaces = former.Session != ""; !c.replaces {
			former.Sequence = w.clock.current()
		}
		c.watermark = former.Sequence
		queues[c.queue] = eventstore.Watermark{Session: c.session, Sequence: c.watermark, Updated: began.UTC()}
		return true
	})
	if err != nil {
		return fmt.Errorf("claiming queue %s: %w", c.queue, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.confirmed = began
	if c.replaces {
		c.heldUntil = time.Now().Add(formerSessionWait)
	}
	w.claims[c.queue] = c
	w.wake()
	return nil
}

// end ends the claim of a session. It releases the entry if the store has every event that
// got a sequence, also from a former session; otherwise the entry stays for the next session.
func (w *watermarks) end(ctx context.Context, c *claim) {
	w.mu.Lock()
	claimed := w.claims[c.queue] == c
	complete := len(c.unwritten) == 0 && !c.held()
	delete(w.claims, c.queue)
	w.mu.Unlock()
	if !claimed || !complete || w.StoreError() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	isOwn := func(entry eventstore.Watermark) bool { return entry.Session == c.session }
	if err := w.release(ctx, c.queue, isOwn); err != nil {
		w.cfg.Logger.Warn("stopped without a release of the watermark; readers of new events wait until another indexer releases it", "queue", c.queue, "error", err)
	}
}

// release enters that a queue has no session, if its entry is as expected.
func (w *watermarks) release(ctx context.Context, queue string, expected func(eventstore.Watermark) bool) error {
	if err := w.requests.Acquire(ctx, 1); err != nil {
		return err
	}
	defer w.requests.Release(1)
	return w.update(ctx, func(queues map[string]eventstore.Watermark) bool {
		if !expected(queues[queue]) {
			return false
		}
		queues[queue] = eventstore.Watermark{Sequence: w.clock.advance(), Updated: time.Now().UTC()}
		return true
	})
}

// update changes the record. If another process has changed it, update reads it and calls
// change again.
func (w *watermarks) update(ctx context.Context, change func(queues map[string]eventstore.Watermark) bool) error {
	for range maxSaveConflicts {
		if !w.current {
			if err := w.read(ctx); err != nil {
				return err
			}
		}
		next := eventstore.Watermarks{Source: w.cfg.Source, Queues: maps.Clone(w.record.Queues), Brokers: w.brokers()}
		if !change(next.Queues) {
			return nil
		}
		version, err := eventstore.SaveRecord(ctx, w.cfg.Store, eventstore.WatermarkRecord, next.Source, w.version, next)
		w.current = version != "" && err == nil
		if err != nil {
			return err
		}
		if w.current {
			w.version = version
			w.adopt(next)
			return nil
		}
	}
	return fmt.Errorf("the watermarks of %s were changed by other processes %d times at once", w.cfg.Source, maxSaveConflicts)
}

// brokerMemory is the time for which the record names a broker that saves no more.
const brokerMemory = time.Minute

// findBroker finds the name of the broker for the record, if its connection knows it.
func (w *watermarks) findBroker(ctx context.Context) {
	named, knows := w.cfg.Broker.(interface {
		Source(ctx context.Context) (string, error)
	})
	if !knows {
		return
	}
	if name, err := named.Source(ctx); err == nil {
		w.broker.Store(&name)
	}
}

// brokers returns the brokers of the record with the one of this process.
func (w *watermarks) brokers() map[string]time.Time {
	brokers := map[string]time.Time{}
	for name, at := range w.record.Brokers {
		if time.Since(at) < brokerMemory {
			brokers[name] = at
		}
	}
	if name := w.broker.Load(); name != nil {
		brokers[*name] = time.Now().UTC()
	}
	return brokers
}

func (w *watermarks) read(ctx context.Context) error {
	record, version, err := eventstore.ReadWatermarks(ctx, w.cfg.Store, w.cfg.Source)
	if err != nil {
		return err
	}
	w.version, w.current = version, true
	w.adopt(record)
	return nil
}

// adopt remembers the record of the store. It raises the clock above all sequences, so that
// idle queues of this process follow the queues of others, and cancels sessions that have lost
// their claims.
func (w *watermarks) adopt(record eventstore.Watermarks) {
	w.record = record
	for _, entry := range record.Queues {
		w.clock.raise(entry.Sequence)
	}
	complete, _ := record.Bound()
	w.complete.Store(complete)
	w.mu.Lock()
	defer w.mu.Unlock()
	for queue, c := range w.claims {
		if record.Queues[queue].Session != c.session {
			c.lost = true
			delete(w.claims, queue)
			c.cancel(errClaimLost)
		}
	}
}

// WatermarkAge returns the time since the event of CompleteUpTo, by the clock of sequences. It
// is 0 if no queue has a session.
func (x *Indexer) WatermarkAge() time.Duration {
	complete := x.CompleteUpTo()
	if complete == 0 {
		return 0
	}
	return max(0, x.cfg.Now().Sub(time.UnixMicro(complete)))
}

// CompleteUpTo returns the highest sequence up to which the events of all queues are stored,
// as this process knows it. It returns 0 if no queue has a session.
func (x *Indexer) CompleteUpTo() int64 { return x.watermarks.complete.Load() }
