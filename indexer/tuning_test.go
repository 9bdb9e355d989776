package indexer

import (
	"testing"
	"time"
)

func TestThePrefetchFollowsTheSizeOfMessages(t *testing.T) {
	f := newPrefetchTuner(32<<20, 8000)
	tuned := func(messages, size int) int {
		for range 100 {
			f.startSession()
			for range 10 * f.prefetch {
				if f.observe(messages, messages*size) {
					break
				}
			}
		}
		return f.startSession()
	}
	if f.startSession() != 2 {
		t.Errorf("it begins with %d, of which each may have 16 MiB", f.prefetch)
	}
	if least := newPrefetchTuner(1<<20, 8000).startSession(); least != 1 {
		t.Errorf("with little memory it begins with %d", least)
	}
	for _, test := range []struct{ size, least, most int }{
		{1 << 10, 8000, 8000}, {16 << 20, 1, 4}, {100 << 20, 1, 1}, {1 << 20, 8, 64}, {1 << 10, 8000, 8000}, {0, 8000, 8000},
	} {
		got := tuned(1, test.size)
		if got < test.least || got > test.most {
			t.Errorf("messages of %d bytes: prefetch %d, want %d to %d", test.size, got, test.least, test.most)
		}
	}
}

func TestThePrefetchChangesOnceInASession(t *testing.T) {
	f := newPrefetchTuner(32<<20, 8000)
	f.startSession()
	changes := 0
	for range 1000 {
		if f.observe(10, 10_000) {
			changes++
		}
	}
	if changes != 1 {
		t.Errorf("%d changes", changes)
	}
}

func TestTheBatchSizeFollowsTheStore(t *testing.T) {
	a := newBatchSizer(Batch{Events: 2000, Bytes: 1 << 20})
	now := func() int { events, _ := a.size(); return events }
	if now() != 500 {
		t.Errorf("it begins with %d", now())
	}
	for range 20 {
		a.observe(now(), time.Duration(now())*10*time.Microsecond)
	}
	if now() != 2000 {
		t.Errorf("while large requests cost no more it is %d", now())
	}
	a.halveEvents()
	a.halveEvents()
	if now() != 500 {
		t.Errorf("after the store was busy twice it is %d", now())
	}
	for range 20 {
		a.observe(now(), time.Duration(now())*time.Millisecond)
	}
	if now() != 500 {
		t.Errorf("while a document costs more it grows to %d", now())
	}
	for range 20 {
		a.halveEvents()
		a.shrinkBytes(100)
	}
	if events, bytes := a.size(); events != 1 || bytes != 64<<10 {
		t.Errorf("at least %d events, %d bytes", events, bytes)
	}
	for range 100 {
		a.observe(1, time.Microsecond)
	}
	if _, bytes := a.size(); bytes != 1<<20 {
		t.Errorf("it does not grow again: %d bytes", bytes)
	}
}

func TestTheClockNeverGoesBack(t *testing.T) {
	at := time.UnixMicro(1_000_000)
	c := clock{now: func() time.Time { return at }}
	next := func() int64 { sequence, _ := c.next(); return sequence }
	for n, step := range []struct {
		advance time.Duration
		raise   int64
		want    int64
	}{
		{0, 0, 1_000_000},
		{0, 0, 1_000_001},
		{time.Second, 0, 2_000_000},
		{-time.Hour, 0, 2_000_001},
		{0, 5_000_000, 5_000_001},
		{0, 1, 5_000_002},
		{2 * time.Hour, 0, 3_602_000_000},
		{0, 1<<63 - 1, 3_602_000_001}, // no clock gave it
	} {
		at = at.Add(step.advance)
		c.raise(step.raise)
		if got := next(); got != step.want {
			t.Errorf("step %d: got %d, want %d", n, got, step.want)
		}
	}
}
