package indexer

import (
	"context"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// readableStore is a store that a subscription reads.
type readableStore interface {
	testStore
	subscription.Store
}

// eventReader is a subscription.Reader of all events of a system, from the first one.
type eventReader struct {
	events chan schemas.Event
	stop   func()
}

func (s *system) read(store testStore) eventReader {
	ctx, cancel := context.WithCancel(context.Background())
	r, done := eventReader{events: make(chan schemas.Event, 1_000_000)}, make(chan struct{})
	go func() {
		defer close(done)
		var after eventstore.Cursor
		reader := subscription.Reader{Store: store.(readableStore), Source: s.decoder.Source, Interval: 10 * time.Millisecond}
		for ctx.Err() == nil {
			for item, err := range reader.Items(ctx, after) {
				if err != nil || item.Err != nil {
					s.log.Logger().Warn("reading", "error", err, "item", item.Err)
					time.Sleep(10 * time.Millisecond)
					continue
				}
				if after = item.Position; !item.CaughtUp {
					r.events <- item.Event
				}
			}
		}
	}()
	r.stop = func() { cancel(); <-done }
	s.t.Cleanup(r.stop)
	return r
}

// wantInOrder receives events until the reader has n, in the order of their positions.
func (r eventReader) wantInOrder(t *testing.T, n int) (list []schemas.Event) {
	t.Helper()
	deadline := time.After(rabbittest.Timeout)
	var last eventstore.Cursor
	for len(list) < n {
		select {
		case e := <-r.events:
			position := eventstore.Cursor{Sequence: e.Sequence, EventID: e.EventID}
			if position.Sequence < last.Sequence || position.Sequence == last.Sequence && position.EventID <= last.EventID {
				t.Fatalf("read %v after %v", position, last)
			}
			last = position
			list = append(list, e)
		case <-deadline:
			t.Fatalf("read %d events, want %d", len(list), n)
		}
	}
	return list
}

func (s *system) watermark(store testStore, queue string) eventstore.Watermark {
	s.t.Helper()
	w, _, err := eventstore.ReadWatermarks(patient(s.t), store.(readableStore), s.decoder.Source)
	if err != nil {
		s.t.Fatal(err)
	}
	return w.Queues[queue]
}

// A reader follows the indexer. At the end of the indexer its queue has no session.
func TestWatermarkMovesAndIsReleased(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		s := newSystem(t, b)
		store, index := newStore(t, b), s.topology.Index()
		r, run := s.read(store), s.start(store, nil)
		s.publish(s.messages("first", 100)...)
		read := r.wantInOrder(t, 100)
		claimed := s.watermark(store, index)
		if claimed.Session == "" || claimed.Sequence < read[99].Sequence {
			t.Errorf("the watermark is %+v, the newest event has %d", claimed, read[99].Sequence)
		}
		rabbittest.Eventually(t, "an idle queue moves, too", func() bool {
			moved := s.watermark(store, index)
			return moved.Session == claimed.Session && moved.Sequence > claimed.Sequence && moved.Updated.After(claimed.Updated)
		})
		s.publish(s.messages("second", 100)...)
		run.stop()
		if released := s.watermark(store, index); released.Session != "" {
			t.Errorf("after the end the watermark is %+v", released)
		}
		s.start(store, nil)
		r.wantInOrder(t, 100)
	})
}
