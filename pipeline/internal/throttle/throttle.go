// Package throttle limits the warnings about one subject.
package throttle

import (
	"sync"
	"time"
)

const (
	warnEvery   = time.Minute
	maxWarnings = 1000 // remembered subjects
)

// Warnings limits the warnings about one subject to one a minute. The zero value is ready.
type Warnings struct {
	mu   sync.Mutex // guards last
	last map[string]time.Time
}

// Allow reports whether a warning about a subject is due, and counts it then.
func (w *Warnings) Allow(subject string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, warned := w.last[subject]; warned && now.Before(last.Add(warnEvery)) {
		return false
	}
	if w.last == nil || len(w.last) >= maxWarnings {
		w.last = map[string]time.Time{}
	}
	w.last[subject] = now
	return true
}
