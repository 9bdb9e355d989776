package pipeline

import (
	"sync"
	"time"
)

const (
	warnEvery   = time.Minute
	maxWarnings = 1000 // things that are remembered
)

// throttle lets a warning about one thing through once a minute.
type throttle struct {
	mu   sync.Mutex // guards last
	last map[string]time.Time
}

func (t *throttle) allows(thing string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, warned := t.last[thing]; warned && now.Before(last.Add(warnEvery)) {
		return false
	}
	if t.last == nil || len(t.last) >= maxWarnings {
		t.last = map[string]time.Time{}
	}
	t.last[thing] = now
	return true
}
