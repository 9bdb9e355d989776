package server

import (
	"sync"
	"time"
)

// standstill notices that messages wait for the store while the indexers of all processes
// store nothing.
type standstill struct {
	mu       sync.Mutex // guards the fields below
	complete int64      // the watermark at the latest look
	since    time.Time  // when it stood still first
	looked   time.Time
}

const (
	standstillAfter = 30 * time.Second
	longestLookGap  = time.Minute // between two looks of which both count
)

// look gets the watermark and whether it has to move. It returns since when it stands still.
func (s *standstill) look(now time.Time, complete int64, hasToMove bool) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !hasToMove || complete != s.complete || now.Sub(s.looked) > longestLookGap {
		s.since = now
	}
	s.complete, s.looked = complete, now
	return s.since
}
