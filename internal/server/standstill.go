package server

import (
	"context"
	"fmt"
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

// indexingError returns an error if messages wait and no process indexes them for long.
func (s *Server) indexingError(ctx context.Context, running *indexing) error {
	conn, err := s.Connection()
	if err != nil {
		return err
	}
	waiting, of := 0, ""
	for _, queue := range s.Topology().Indexed() {
		state, err := readyState(ctx, conn, queue)
		if err != nil {
			return err
		}
		if state.Messages > waiting {
			waiting, of = state.Messages, queue
		}
	}
	now := time.Now()
	since := s.standstill.look(now, running.CompleteUpTo(), waiting > 0)
	if now.Sub(since) < standstillAfter {
		return nil
	}
	return fmt.Errorf("%d messages wait in queue %s, and no process has indexed any for %s", waiting, of, now.Sub(since).Round(time.Second))
}
