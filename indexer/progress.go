package indexer

import (
	"fmt"
	"sync"
	"time"
)

// progress is how far the indexing of one queue is.
type queueProgress struct {
	mu             sync.Mutex // guards what follows
	indexedUntil   time.Time  // what was published before is in the store, as far as is known
	unacknowledged int        // messages received and not acknowledged yet
	lastChange     time.Time  // when that last began to grow, or shrank
}

func (p *queueProgress) receive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unacknowledged == 0 {
		p.lastChange = time.Now()
	}
	p.unacknowledged++
}

func (p *queueProgress) acknowledge(messages int, newest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unacknowledged -= messages
	p.indexedUntil, p.lastChange = newest, time.Now()
}

// givesBack is that the session is over: the broker has what was at hand.
func (p *queueProgress) requeue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unacknowledged = 0
}

// Lag is how far the store is behind a queue of which so many messages wait, as
// the broker says: how long ago its newest message that is in the store was
// published, as far as that is known, or that nothing waited when Lag was called.
// What waits since before the start counts from the start. It is 0 where nothing
// waits, in the queue or at hand, and for queues that Run does not drain.
func (x *Indexer) Lag(queue string, waiting int) time.Duration {
	p := x.progress[queue]
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if waiting == 0 && p.unacknowledged == 0 {
		p.indexedUntil = time.Now()
		return 0
	}
	return max(0, time.Since(p.indexedUntil))
}

// StoreError is why the store does not take documents, or does not answer, try after
// try; nil where it does, or was not asked for some minutes.
func (x *Indexer) StoreError() error {
	if err := x.writeFailure.lasting(); err != nil {
		return err
	}
	return x.readFailure.lasting()
}

// Stalled is an error where messages of a queue have been at hand for longer than
// any store can delay them: a store that is away makes the indexer give them
// back. Then only a new process helps.
func (x *Indexer) Stalled() error {
	const lookups = 3 // each with a patience of its own
	limit := (maxHoldFactor + lookups) * x.cfg.RequeueAfter
	for queue, p := range x.progress {
		p.mu.Lock()
		atHand, since := p.unacknowledged, time.Since(p.lastChange)
		p.mu.Unlock()
		if atHand > 0 && since > limit {
			return fmt.Errorf("the indexer has held %d messages of queue %s for %s", atHand, queue, since.Round(time.Second))
		}
	}
	return nil
}
