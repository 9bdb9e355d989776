package indexer

import (
	"fmt"
	"sync"
	"time"
)

// queueProgress measures the indexing of one queue.
type queueProgress struct {
	mu             sync.Mutex // guards the fields below
	indexedUntil   time.Time  // every message published earlier is in the store
	unacknowledged int        // messages
	read           bool       // the first of these, so that indexedUntil counts it
	lastChange     time.Time  // when messages were last acknowledged, or the first one came
}

func (p *queueProgress) receive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unacknowledged == 0 {
		p.lastChange, p.read = time.Now(), false
	}
	p.unacknowledged++
}

// begin notes when the first message of a batch was published. If no earlier message is
// unacknowledged, all messages that were published earlier are in the store.
func (p *queueProgress) begin(published time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read {
		return
	}
	p.read = true
	if published.After(p.indexedUntil) {
		p.indexedUntil = published
	}
}

func (p *queueProgress) acknowledge(messages int, newest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unacknowledged -= messages
	p.indexedUntil, p.lastChange = newest, time.Now()
}

// requeue records the end of a session: the broker requeues unacknowledged messages.
func (p *queueProgress) requeue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unacknowledged = 0
}

// Lag returns the age of the newest indexed message of a queue: the time since it was
// published, or since the queue was found empty, or since New. Waiting is the number of
// ready messages that the broker reports. Lag is 0 if no message is ready or
// unacknowledged, and for queues that Run does not consume.
func (x *Indexer) Lag(queue string, waiting int) time.Duration {
	p := x.progress[queue]
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case waiting == 0 && p.unacknowledged == 0:
		p.indexedUntil = time.Now()
		return 0
	case waiting == 0 && !p.read:
		return time.Since(p.lastChange)
	}
	return max(0, time.Since(p.indexedUntil))
}

// StoreError returns the reason why the store keeps failing or refusing requests. It
// returns nil if the last request succeeded, or if there was no request for some minutes.
func (x *Indexer) StoreError() error {
	if err := x.writeFailure.lastingError(); err != nil {
		return err
	}
	return x.readFailure.lastingError()
}

// Stalled returns an error if messages of a queue stay unacknowledged for longer than
// any failure of the store explains, since Run requeues them after RequeueAfter. Only a
// restart of the process helps then.
func (x *Indexer) Stalled() error {
	const lookups = 3 // each has a retry budget
	limit := (maxHoldFactor + lookups) * x.cfg.RequeueAfter
	for queue, p := range x.progress {
		p.mu.Lock()
		messages, since := p.unacknowledged, time.Since(p.lastChange)
		p.mu.Unlock()
		if messages > 0 && since > limit {
			return fmt.Errorf("the indexer stalls: %d messages of queue %s are unacknowledged for %s; restart it", messages, queue, since.Round(time.Second))
		}
	}
	return nil
}
