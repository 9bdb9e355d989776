package indexer

import (
	"sync"
	"time"
)

// appetite is how much the store is given in one request. It grows while a
// document of a larger request costs no more time, and is halved when the store
// has too much to do.
type batchSizer struct {
	limit Batch

	mu      sync.Mutex // guards what follows
	events  int
	bytes   int
	fastest time.Duration // of one document in a request
}

func newBatchSizer(most Batch) *batchSizer {
	return &batchSizer{limit: most, events: max(1, most.Events/4), bytes: most.Bytes}
}

func (a *batchSizer) size() (events, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.events, a.bytes
}

// portion is how many of the items go into one request.
func (a *batchSizer) countFitting(items []*item) int {
	events, bytes := a.size()
	n := 0
	for n < min(len(items), events) && bytes > 0 {
		bytes -= len(items[n].document.Source)
		n++
	}
	return n
}

// took is told how long a request lasted that the store took as a whole.
func (a *batchSizer) observe(documents int, lasted time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes = min(a.limit.Bytes, a.bytes+a.bytes/4+1)
	if documents < a.events {
		return // says nothing about larger ones
	}
	each := lasted / time.Duration(documents)
	if a.fastest == 0 || each < a.fastest {
		a.fastest = each
	}
	if each <= 2*a.fastest { // a refresh or a merge slows some down
		a.events = min(a.limit.Events, a.events+a.events/4+1)
	}
	a.fastest += a.fastest / 64 // times change
}

// lessEvents is for a store that is busy.
func (a *batchSizer) halveEvents() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = max(1, a.events/2)
}

// lessBytes is for a request that was too large.
func (a *batchSizer) shrinkBytes(refused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes = max(64<<10, min(a.bytes, refused/2))
}
