package indexer

import (
	"sync"
	"time"
)

// batchSizer adapts the size of bulk requests. It grows while a document of a larger
// request takes no more time, and halves when the store is overloaded.
type batchSizer struct {
	limit Batch

	mu      sync.Mutex // guards the fields below
	events  int
	bytes   int
	fastest time.Duration // per document of a request
}

func newBatchSizer(limit Batch) *batchSizer {
	return &batchSizer{limit: limit, events: max(1, limit.Events/4), bytes: limit.Bytes}
}

// size returns the current limits of a request.
func (z *batchSizer) size() (events, bytes int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.events, z.bytes
}

// countFitting returns the number of leading items that fit into one request.
func (z *batchSizer) countFitting(items []*item) int {
	events, bytes := z.size()
	n := 0
	for n < min(len(items), events) && bytes > 0 {
		bytes -= len(items[n].document.Source)
		n++
	}
	return n
}

// observe records the duration of a request that the store answered.
func (z *batchSizer) observe(documents int, duration time.Duration) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.bytes = min(z.limit.Bytes, z.bytes+z.bytes/4+1)
	if documents < z.events {
		return // a small request does not show how long a larger one takes
	}
	each := duration / time.Duration(documents)
	if z.fastest == 0 || each < z.fastest {
		z.fastest = each
	}
	if each <= 2*z.fastest { // a refresh or a merge slows some requests down
		z.events = min(z.limit.Events, z.events+z.events/4+1)
	}
	z.fastest += z.fastest / 64 // forgets old measurements slowly
}

// halveEvents makes requests smaller for a store that is overloaded.
func (z *batchSizer) halveEvents() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.events = max(1, z.events/2)
}

// shrinkBytes makes requests smaller than one that the store refused as too large.
func (z *batchSizer) shrinkBytes(refused int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.bytes = max(64<<10, min(z.bytes, refused/2))
}
