package indexer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

func TestSeveralIndexersKeepTheOrder(t *testing.T) { testSeveral(t, 10, 200) }

// testSeveral starts, stops and kills three indexers at random while messages come
// in. They are processes whose clocks differ by hours. Every message is there once,
// and the order in which they were published is the order of the sequence.
func testSeveral(t *testing.T, rounds, each int) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		s := newSystem(t, b)
		stream := streamName()
		h := &hosts{system: s, stream: stream, store: openStore(t, storeURL(t), stream)}
		if err := h.store.Install(patient(t)); err != nil {
			t.Fatal(err)
		}
		for round := range rounds {
			at := rand.IntN(each)
			s.publish(h.order(round*each, at)...)
			h.change()
			s.publish(h.order(round*each+at, each-at)...)
			h.atLeastOne()
			s.counted(h.store, (round+1)*each)
		}
		events := s.finish(h.store, rounds*each, h.all()...)
		s.wantEachOnce(events)
		for n, event := range events {
			if number := numberOf(t, event); number != n {
				t.Fatalf("event %d is order %d", n, number)
			}
		}
	})
}

// hosts are processes of one installation; nil where none runs.
type hosts struct {
	*system
	store   *elastic.Store
	stream  string
	running [3]*process
}

// change starts, stops or kills one.
func (h *hosts) change() {
	n := rand.IntN(len(h.running))
	switch {
	case h.running[n] == nil:
		h.start(n)
		return
	case rand.IntN(2) == 0:
		h.running[n].stop()
	default:
		h.running[n].kill()
	}
	h.running[n] = nil
}

func (h *hosts) start(n int) {
	ahead := [len(h.running)]time.Duration{-5 * time.Hour, 0, 3 * time.Hour}
	h.running[n] = h.startProcess(processConfig{
		Broker: h.URL, Store: storeURL(h.t), Stream: h.stream, Ahead: ahead[n],
		Batch: Batch{Wait: 20 * time.Millisecond},
	})
}

func (h *hosts) atLeastOne() {
	if len(h.all()) == 0 {
		h.start(rand.IntN(len(h.running)))
	}
}

func (h *hosts) all() []*running {
	var all []*running
	for _, p := range h.running {
		if p != nil {
			all = append(all, &p.running)
		}
	}
	return all
}

func (h *hosts) order(first, count int) []schemas.Envelope {
	return h.messages("order", first+count)[first:]
}

func numberOf(t testing.TB, event schemas.Event) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(event.Envelope.Properties.MessageID, "order-%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
