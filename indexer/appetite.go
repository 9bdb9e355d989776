package indexer

import (
	"sync"
	"time"
)

// appetite is how much the store is given in one request. It grows while a
// document of a larger request costs no more time, and is halved when the store
// has too much to do.
type appetite struct {
	most Batch

	mu     sync.Mutex // guards what follows
	events int
	bytes  int
	best   time.Duration // of one document in a request
}

func newAppetite(most Batch) *appetite {
	return &appetite{most: most, events: max(1, most.Events/4), bytes: most.Bytes}
}

func (a *appetite) now() (events, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.events, a.bytes
}

// portion is how many of the items go into one request.
func (a *appetite) portion(items []*item) int {
	events, bytes := a.now()
	n := 0
	for n < min(len(items), events) && bytes > 0 {
		bytes -= len(items[n].document.Source)
		n++
	}
	return n
}

// took is told how long a request lasted that the store took as a whole.
func (a *appetite) took(documents int, lasted time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes = min(a.most.Bytes, a.bytes+a.bytes/4+1)
	if documents < a.events {
		return // says nothing about larger ones
	}
	each := lasted / time.Duration(documents)
	if a.best == 0 || each < a.best {
		a.best = each
	}
	if each <= 2*a.best { // a refresh or a merge slows some down
		a.events = min(a.most.Events, a.events+a.events/4+1)
	}
	a.best += a.best / 64 // times change
}

// lessEvents is for a store that is busy.
func (a *appetite) lessEvents() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = max(1, a.events/2)
}

// lessBytes is for a request that was too large.
func (a *appetite) lessBytes(refused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes = max(64<<10, min(a.bytes, refused/2))
}
