package pipeline

import (
	"sync"
	"time"
)

const (
	warnEvery   = time.Minute
	maxWarnings = 1000 // remembered subjects
)

// throttle limits the warnings about one subject to one a minute.
type throttle struct {
	mu   sync.Mutex // guards last
	last map[string]time.Time
}

func (t *throttle) allows(subject string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, warned := t.last[subject]; warned && now.Before(last.Add(warnEvery)) {
		return false
	}
	if t.last == nil || len(t.last) >= maxWarnings {
		t.last = map[string]time.Time{}
	}
	t.last[subject] = now
	return true
}
