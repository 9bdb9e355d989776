package indexer

import (
	"sync"
	"time"
)

// refusal is why the store does not answer, or does not take documents, try after
// try. One try that fails is none: a store may be busy for a moment.
type refusal struct {
	mu     sync.Mutex // guards what follows
	err    error      // nil: the last try was successful, or there was none
	tries  int        // that failed
	since  time.Time  // when the first of them began
	latest time.Time  // when the last of them ended
}

const (
	notAtOnce    = 3                // tries are what a store that is busy for a moment takes
	aMoment      = 10 * time.Second // that such a store is busy at most
	refusalLasts = 3 * time.Minute  // without a try, as where another indexer has the messages
)

func (r *refusal) failed(began time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.tries, r.since = 0, began
	}
	r.err, r.latest = err, time.Now()
	r.tries++
}

func (r *refusal) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = nil
}

func (r *refusal) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil || time.Since(r.latest) > refusalLasts || r.tries <= notAtOnce && time.Since(r.since) < aMoment {
		return nil
	}
	return r.err
}
