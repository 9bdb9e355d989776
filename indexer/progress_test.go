package indexer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// While a request hangs, the lag grows, and in the end the indexer has stalled. Both end
// when the request is answered.
func TestLagAndStalled(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	store := &hangingStore{fakeStore: newFakeStore(func(schemas.Document) bool { return false }), release: make(chan struct{})}
	run := s.start(store, func(cfg *Config) { cfg.RequeueAfter = 10 * time.Millisecond })
	index := s.topology.Index()
	if lag := run.Lag(index, 0); lag != 0 {
		t.Errorf("nothing waits, and it lags by %s", lag)
	}
	if err := run.Stalled(); err != nil {
		t.Errorf("nothing is unacknowledged: %v", err)
	}
	s.publish(s.message("m", 0))
	rabbittest.Eventually(t, "it lags, with nothing in the queue", func() bool { return run.Lag(index, 0) > 100*time.Millisecond })
	rabbittest.Eventually(t, "it stalls", func() bool {
		err := run.Stalled()
		return err != nil && strings.Contains(err.Error(), "1 messages of queue "+index)
	})
	close(store.release)
	rabbittest.Eventually(t, "it goes on", func() bool { return run.Stalled() == nil && run.Lag(index, 0) == 0 })
	if lag := run.Lag(index, 1); lag <= 0 {
		t.Error("a message waits, and it does not lag")
	}
	if lag := run.Lag("another", 1); lag != 0 {
		t.Errorf("another queue lags by %s", lag)
	}
	run.stop()
}

// The time in which nothing was published is no lag of the next message.
func TestLagAfterAnIdleTime(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	store := &hangingStore{fakeStore: newFakeStore(func(schemas.Document) bool { return false }), release: make(chan struct{}, 1)}
	store.release <- struct{}{}
	run := s.start(store, nil)
	index, earlier := s.topology.Index(), s.message("m", 0)
	earlier.Properties.Timestamp = time.Now().Add(-time.Hour)
	s.publish(earlier)
	rabbittest.Eventually(t, "it is acknowledged", func() bool { return len(store.release) == 0 && unacknowledged(run, index) == 0 })
	s.publish(s.message("m", 1))
	rabbittest.Eventually(t, "the next is written", func() bool { return unacknowledged(run, index) == 1 && run.Lag(index, 0) > 0 })
	if lag := run.Lag(index, 0); lag > time.Hour/2 {
		t.Errorf("a message that was just published lags by %s", lag)
	}
	close(store.release)
	run.stop()
}

func unacknowledged(run *running, queue string) int {
	p := run.progress[queue]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unacknowledged
}

// Requeued messages are no longer unacknowledged.
func TestRequeuedMessagesDoNotStall(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	store := newFakeStore(func(schemas.Document) bool { return true }) // refuses even raw envelopes
	run := s.start(store, nil)
	s.publish(s.message("m", 0))
	rabbittest.Eventually(t, "it is requeued", func() bool { return s.log.Count("requeued the unacknowledged messages") > 0 })
	run.stop()
	if lag := run.Lag(s.topology.Index(), 0); lag != 0 {
		t.Errorf("nothing is unacknowledged, and it lags by %s", lag)
	}
}

// A queue is not empty while its redelivered messages are looked up: stopping at that
// moment would requeue them for ever.
func TestDrainIndexesRedeliveredMessages(t *testing.T) {
	t.Parallel()
	const count, calls = 20, 4
	s := newSystem(t, rabbittest.Newest(t))
	queue, store := s.topology.Index(), newStore(t, s.Broker)
	s.publish(s.messages("m", count)...)
	s.consumeAndRequeue(queue, count)
	rabbittest.Eventually(t, "they are back", func() bool { return s.Len(t, queue) == count })
	for range calls { // the last messages may be requeued
		cfg := s.config(store)
		cfg.Broker = rabbit.Consumer{Connection: s.open(s.URL, true)}
		err := New(cfg).Drain(t.Context(), queue, func(context.Context) (int, error) { return s.Len(t, queue), nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := len(s.events(store, "")); got != count {
		t.Errorf("after %d calls %d of %d messages are in the store", calls, got, count)
	}
}
