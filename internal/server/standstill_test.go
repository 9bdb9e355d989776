package server

import (
	"testing"
	"time"
)

func TestStandstill(t *testing.T) {
	var s standstill
	now := time.Now()
	for n, c := range []struct {
		later     time.Duration
		complete  int64
		hasToMove bool
		stands    time.Duration
	}{
		{0, 5, true, 0},
		{10 * time.Second, 5, true, 10 * time.Second},
		{30 * time.Second, 5, true, 40 * time.Second},
		{10 * time.Second, 6, true, 0},                // an indexer stores events
		{20 * time.Second, 6, false, 0},               // nothing waits
		{20 * time.Second, 6, true, 20 * time.Second}, // no indexer has begun
		{2 * longestLookGap, 6, true, 0},              // what was between is not known
		{longestLookGap, 6, true, longestLookGap},
	} {
		now = now.Add(c.later)
		if stands := now.Sub(s.look(now, c.complete, c.hasToMove)); stands != c.stands {
			t.Errorf("look %d: it stands still for %s, want %s", n, stands, c.stands)
		}
	}
}
