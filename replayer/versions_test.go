package replayer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/replayer/internal/inflight"
	"github.com/watershipmq/watership/schemas"
)

// inVersion returns published message n as a version of a stream.
func (f *fixture) inVersion(stream string, version int64, n int) schemas.Event {
	e := f.published(n)
	e.Stream = schemas.MessageStream{ID: stream, Version: version, HasVersion: true}
	return e
}

// The messages of a stream are sent by their versions, others in the recorded order, also by a job that was stopped. A
// gap holds nothing up, doubles stay in the recorded order, and messages without a version in their turn.
func TestOrderOfVersions(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storeEvents(
		f.inVersion("a", 3, 1), f.inVersion("b", 1, 2), f.published(3),
		f.inVersion("a", 2, 4), f.inVersion("a", 7, 5), f.inStream("a", 6), f.inVersion("a", 2, 7),
		f.inVersion("a", 1, 8), f.inVersion("b", 3, 9), f.inVersion("b", 2, 10),
		f.inVersion("c", 9, 11), f.inVersion("c", 4, 12),
	)
	f.storeEvents(f.inVersion("b", 4, 9)) // the same message again
	job := f.jobByVersion()
	job.Rate = 0.001 // so that one is sent, while others are held
	created := f.create(job)
	ctx, pause := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var paused Job
	work.Go(func() { paused, _ = f.Run(ctx, created.ID, RunOptions{}) })
	rabbittest.Eventually(t, "a message arrives", func() bool { return f.broker.Len(t, f.queue) == 1 })
	pause()
	work.Wait()
	wantJob(t, paused, Paused, 0, 0)
	f.indexLog()
	paused.Rate = 0
	f.saveJob(&paused)
	wantJob(t, f.resume(paused, RunOptions{}), Done, 12, 0)
	if got, want := f.receivedIDs(f.queue), "m-2 m-3 m-6 m-8 m-4 m-7 m-1 m-5 m-10 m-9 m-12 m-11"; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

// jobByVersion returns a job of all published messages.
func (f *fixture) jobByVersion() Job {
	job := f.job("event.action: published")
	job.Order = ByVersion
	return job
}

// No message waits for one that an earlier run has sent.
func TestVersionsAfterAResume(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	events := []schemas.Event{f.inVersion("a", 2, 1), f.inVersion("a", 1, 2), f.inVersion("a", 3, 3), f.inVersion("b", 1, 4)}
	f.storeEvents(events...)
	job := f.pausedAfter(f.create(f.jobByVersion()), 2, events)
	wantJob(t, f.resume(job, RunOptions{}), Done, 4, 0)
	if got := f.receivedIDs(f.queue); got != "m-3 m-4" {
		t.Errorf("sent %s", got)
	}
}

// A message does not wait for one that is too far behind, since the checkpoint has to pass it. The job says so before it
// sends anything.
func TestVersionsThatAreTooFarApart(t *testing.T) {
	version := func(n int64) schemas.MessageStream {
		return schemas.MessageStream{ID: "a", Version: n, HasVersion: true}
	}
	for between, isTooFar := range map[int]bool{inflight.Lookahead - 2: false, inflight.Lookahead - 1: true} {
		var passed passedVersions
		for _, stream := range append([]schemas.MessageStream{{}, version(2)}, make([]schemas.MessageStream, between)...) {
			if isLate, err := passed.add(stream); isLate || err != nil {
				t.Fatal(isLate, err)
			}
		}
		if isLate, err := passed.add(version(1)); !isLate || isTooFar != (err != nil) {
			t.Errorf("%d between: late %t, %v", between, isLate, err)
		}
	}
}

// Messages may have become visible since the late ones were found.
func TestVersionsThatMoveApart(t *testing.T) {
	v := &versionOrder{late: map[string][]lateMessage{"a": {{lowest: 1}}}, held: map[string][]*inFlight{}}
	m := &inFlight{candidate: &candidate{}, bytes: 1}
	m.event.Stream = schemas.MessageStream{ID: "a", Version: 2, HasVersion: true}
	if !v.hold(m) {
		t.Fatal("it is not held")
	}
	if err := v.tooMany(inflight.Lookahead - 1); err != nil {
		t.Error(err)
	}
	for _, index := range []int64{inflight.Lookahead, 1} {
		if err := v.tooMany(index); err == nil || !strings.Contains(err.Error(), "stream a") {
			t.Errorf("a message that waits for too many others: %v", err)
		}
		v.bytes = inflight.MaxHeldBytes + 1
	}
	if v.rest(); v.tooMany(inflight.Lookahead) != nil || v.bytes != inflight.MaxHeldBytes {
		t.Error("a message that was sent is still held")
	}
}

// A limit or a canary could separate a message from the one that it waits for.
func TestNoLimitByVersion(t *testing.T) {
	for _, job := range []Job{{Limit: 1}, {Ramp: Ramp{First: 1}}} {
		if job.Order = ByVersion; !errors.Is(job.checkOrder(), ErrPartsByVersion) {
			t.Errorf("%+v was accepted", job)
		}
	}
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storeEvents(f.inVersion("a", 1, 1))
	created := f.create(f.jobByVersion())
	if _, err := f.Run(t.Context(), created.ID, RunOptions{StopAfter: 1}); !errors.Is(err, ErrPartsByVersion) {
		t.Errorf("a canary: %v", err)
	}
	wantJob(t, f.resume(created, RunOptions{}), Done, 1, 0)
}
