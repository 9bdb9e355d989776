package indexer

import (
	"sync"
	"time"
)

// storeFailure records why requests to the store fail. It reports only errors that
// last, since a busy store may refuse a few requests.
type storeFailure struct {
	mu     sync.Mutex // guards the fields below
	err    error      // nil: the last request succeeded, or there was no request
	tries  int        // that failed
	since  time.Time  // when the first of them began
	latest time.Time  // when the last of them ended
}

const (
	briefTries    = 3                // a busy store refuses as many requests
	briefOutage   = 10 * time.Second // or requests for as long
	failureExpiry = 3 * time.Minute  // without a request, as where another indexer consumes
)

func (f *storeFailure) record(began time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.tries, f.since = 0, began
	}
	f.err, f.latest = err, time.Now()
	f.tries++
}

func (f *storeFailure) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = nil
}

// lastingError returns the error of a failure that lasts, else nil. Only requests prolong a failure, not the time after
// them: a process whose last request failed and whose queue another indexer took over has no reason to make one.
func (f *storeFailure) lastingError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || time.Since(f.latest) > failureExpiry || f.tries <= briefTries && f.latest.Sub(f.since) < briefOutage {
		return nil
	}
	return f.err
}
