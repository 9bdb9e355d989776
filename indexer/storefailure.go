package indexer

import (
	"sync"
	"time"
)

// refusal is why the store does not answer, or does not take documents, try after
// try. One try that fails is none: a store may be busy for a moment.
type storeFailure struct {
	mu     sync.Mutex // guards what follows
	err    error      // nil: the last try was successful, or there was none
	tries  int        // that failed
	since  time.Time  // when the first of them began
	latest time.Time  // when the last of them ended
}

const (
	briefTries    = 3                // tries are what a store that is busy for a moment takes
	briefOutage   = 10 * time.Second // that such a store is busy at most
	failureExpiry = 3 * time.Minute  // without a try, as where another indexer has the messages
)

func (r *storeFailure) record(began time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.tries, r.since = 0, began
	}
	r.err, r.latest = err, time.Now()
	r.tries++
}

func (r *storeFailure) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = nil
}

func (r *storeFailure) lasting() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil || time.Since(r.latest) > failureExpiry || r.tries <= briefTries && time.Since(r.since) < briefOutage {
		return nil
	}
	return r.err
}
