package indexer

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

func TestSeveralIndexersKeepTheOrder(t *testing.T) { testSeveral(t, 10, 200) }

// Copies that several queues share are recorded in the order of their keys, by one process that another
// follows. A reader reads each event once.
func TestPartitionsKeepTheOrderOfKeys(t *testing.T) {
	b := rabbittest.Either(t)
	s := newSystemOf(t, b, schemas.Topology{IndexPartitions: 3})
	const keys, each = 12, 25
	store := newStore(t, b)
	reader := s.read(store)
	run := s.start(store, nil)
	s.publish(s.keyed(keys, each)...)
	s.wait(store, keys*each)
	_, queues := s.topology.Partitions()
	for _, queue := range queues {
		if w := s.watermark(store, queue); w.Session == "" {
			t.Errorf("no copies are in %s", queue)
		}
	}
	run.stop()
	second := s.start(store, nil)
	s.publish(s.keyed(keys, each)...)
	read := reader.wantInOrder(t, 2*keys*each)
	s.finish(store, 2*keys*each, second)
	next := map[string]int{}
	for _, event := range read {
		key := event.Envelope.RoutingKey
		if n := next[key] % each; event.Envelope.Properties.MessageID != fmt.Sprintf("%s-%d", key, n) {
			t.Fatalf("message %d of key %s is %s", n, key, event.Envelope.Properties.MessageID)
		}
		next[key]++
	}
}

// keyed returns messages with some routing keys, in turn.
func (s *system) keyed(keys, each int) (list []schemas.Envelope) {
	for n := range each {
		for key := range keys {
			m := s.message(fmt.Sprint("key", key), n)
			m.RoutingKey = fmt.Sprint("key", key)
			list = append(list, m)
		}
	}
	return list
}

// testSeveral starts, stops and kills three indexers at random while messages come
// in. They are processes whose clocks differ by hours. Every message is there once,
// and the order in which they were published is the order of the sequence. A reader reads
// every event once, in the same order, although some become visible late.
func testSeveral(t *testing.T, rounds, each int) {
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		s := newSystem(t, b)
		h := newHosts(s)
		reader := s.read(h.store)
		for round := range rounds {
			at := rand.IntN(each)
			s.publish(h.order(round*each, at)...)
			h.change()
			s.publish(h.order(round*each+at, each-at)...)
			h.atLeastOne()
			s.counted(h.store, (round+1)*each)
		}
		read := reader.wantInOrder(t, rounds*each)
		events := s.finish(h.store, rounds*each, h.all()...)
		same := func(a, b schemas.Event) bool { return a.Sequence == b.Sequence && a.EventID == b.EventID }
		if !slices.EqualFunc(read, events, same) {
			t.Error("the reader did not read the stored events")
		}
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
	store   testStore
	stream  string // of Elasticsearch
	file    string // of the embedded store, for the embedded broker
	running [3]*process
}

func newHosts(s *system) *hosts {
	s.t.Helper()
	h := &hosts{system: s}
	if s.Own {
		h.file = filepath.Join(s.t.TempDir(), "store.db")
		h.store = openFile(s.t, h.file)
	} else {
		h.stream = streamName()
		h.store = openStore(s.t, storeURL(s.t), h.stream)
	}
	if err := h.store.Install(patient(s.t)); err != nil {
		s.t.Fatal(err)
	}
	return h
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
	config := processConfig{Broker: h.URL, Stream: h.stream, File: h.file, Ahead: ahead[n], Batch: Batch{Wait: 20 * time.Millisecond}}
	if h.file == "" {
		config.Store = storeURL(h.t)
	}
	h.running[n] = h.startProcess(config)
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
