package indexer

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

func TestAssignFreeSequences(t *testing.T) {
	for name, test := range map[string]struct{ stored, want []int64 }{
		"nothing":                    {nil, nil},
		"all are stored":             {[]int64{11, 12, 15}, []int64{11, 12, 15}},
		"none is":                    {[]int64{0, 0}, []int64{0, 0}},
		"the first are lost":         {[]int64{0, 0, 20, 21}, []int64{18, 19, 20, 21}},
		"the last are lost":          {[]int64{20, 21, 0, 0}, []int64{20, 21, 0, 0}},
		"some between":               {[]int64{11, 0, 0, 14, 0, 17}, []int64{11, 12, 13, 14, 16, 17}},
		"a gap too small":            {[]int64{11, 0, 0, 13, 0, 17}, []int64{11, 0, 0, 13, 16, 17}},
		"one stored long before":     {[]int64{0, 3, 0, 20}, []int64{0, 3, 19, 20}},
		"one stored too long before": {[]int64{0, 0, 12}, []int64{0, 0, 12}},
		"no order":                   {[]int64{30, 0, 20, 0, 31, 0, 33}, []int64{30, 0, 20, 0, 31, 32, 33}},
	} {
		got := slices.Clone(test.stored)
		assignFreeSequences(got, 10)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v became %v, want %v", name, test.stored, got, test.want)
		}
	}
}

// Whichever messages are lost, all filled sequences are in order, only those after the
// last stored message stay empty, and filling again changes nothing.
func TestAssignFreeSequencesKeepsTheOrder(t *testing.T) {
	for range 10_000 {
		sequences := make([]int64, rand.IntN(20))
		last, stored := int64(100), 0
		for i := range sequences {
			last += 1 + rand.Int64N(3)
			if rand.IntN(2) == 0 {
				sequences[i], stored = last, i+1
			}
		}
		was := slices.Clone(sequences)
		assignFreeSequences(sequences, 100)
		for i, sequence := range sequences {
			switch {
			case was[i] != 0 && sequence != was[i], (sequence == 0) != (i >= stored):
				t.Fatalf("%v became %v", was, sequences)
			case i > 0 && i < stored && sequence <= sequences[i-1]:
				t.Fatalf("%v became %v, which does not rise", was, sequences)
			}
		}
		if again := slices.Clone(sequences); len(assignFreeSequences(again, 100)) > 0 {
			t.Fatalf("%v became %v", sequences, again)
		}
	}
}

// An indexer is killed when a bulk request is stored and an earlier one is not.
func TestTheOrderIsKeptAcrossACrash(t *testing.T) {
	t.Parallel() // most of it is waiting
	type onBroker = func(t *testing.T, b rabbittest.Broker)
	onEither := func(t *testing.T, test onBroker) { test(t, rabbittest.Either(t)) }
	for name, test := range map[string]struct {
		each    func(*testing.T, onBroker)
		message func(*system, int) rabbit.Message
	}{
		"of messages": {rabbittest.Each, func(s *system, n int) rabbit.Message {
			e := s.message("order", n)
			return rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}
		}},
		"of bundles and events": {onEither, func(s *system, n int) rabbit.Message {
			e, id := s.message("order", n), fmt.Sprint("event-", n)
			m := poisoned(e, s.topology, id)
			if n%3 > 0 {
				var bundle wire.Bundle
				bundle.Add(schemas.Event{
					State:  schemas.State{EventID: id, Fingerprint: e.Fingerprint(), Message: "01J", Time: time.Now()},
					Action: schemas.Poisoned, Envelope: e, BodySize: len(e.Body),
				})
				m.Publishing = bundle.Publishing()
			}
			return m
		}},
		"of events": {onEither, func(s *system, n int) rabbit.Message {
			return poisoned(s.message("order", n), s.topology, fmt.Sprint("event-", n))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			test.each(t, func(t *testing.T, b rabbittest.Broker) {
				t.Parallel()
				c := newCrash(t, b)
				messages := make([]rabbit.Message, fourBatches)
				for n := range messages {
					messages[n] = test.message(c.system, n)
				}
				c.send(messages...)
				c.loseBulk()
				c.killAfterLoss(c.startVictim(fourBatches, 0))
				c.wantOrder(c.finish(c.store, fourBatches, c.start(c.store, nil)))
			})
		})
	}
}

// An indexer is killed with more unacknowledged messages than the first prefetch of the
// next one.
func TestTheOrderIsKeptAcrossACrashInABacklog(t *testing.T) {
	rabbittest.EachKind(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		const before, count = 600, 1900
		c := newCrash(t, b)
		victim := c.startVictim(count/3, 0)
		c.publish(c.messages("order", before)...)
		c.counted(c.store, before) // the prefetch has grown by now
		c.loseBulk()
		c.publish(c.messages("order", count)[before:]...)
		c.killAfterLoss(victim)
		c.wantOrder(c.finish(c.store, count, c.start(c.store, nil)))
	})
}

// A killed indexer starts again after a day, while another source writes into the same
// store.
func TestTheOrderIsKeptAcrossACrashWithAnotherSource(t *testing.T) {
	t.Parallel()
	c := newCrash(t, rabbittest.Newest(t))
	c.publish(c.messages("order", fourBatches)...)
	c.loseBulk()
	c.killAfterLoss(c.startVictim(fourBatches, -24*time.Hour))
	another := newSystem(t, c.Broker)
	another.publish(another.message("other", 0))
	another.finish(c.store, 1, another.start(c.store, nil))
	c.wantOrder(c.finish(c.store, fourBatches, c.start(c.store, nil)))
}

// crash is a system whose first indexer is killed.
type crash struct {
	*system
	proxy      *faultProxy
	store      *elastic.Store
	stream     string
	laterBulks atomic.Int64 // bulk requests stored after the lost one
}

func newCrash(t *testing.T, b rabbittest.Broker) *crash {
	t.Helper()
	s := newSystem(t, b)
	c := &crash{system: s, proxy: newFaultProxy(t), stream: streamName()}
	c.store = openStore(t, storeURL(t), c.stream)
	if err := c.store.Install(patient(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// fourBatches is the number of messages that are collected during the first request.
const fourBatches = 40

func (c *crash) startVictim(batch int, ahead time.Duration) *process {
	return c.startProcess(processConfig{
		Broker: c.URL, Store: c.proxy.URL, Stream: c.stream, Ahead: ahead, Batch: Batch{Events: batch, Wait: time.Second},
	})
}

// loseBulk lets the next bulk request hang.
func (c *crash) loseBulk() {
	var lost atomic.Bool
	c.proxy.setFault(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if lost.CompareAndSwap(false, true) {
			<-r.Context().Done()
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c.proxy.real.ServeHTTP(w, r)
		c.laterBulks.Add(1)
	})
}

// killAfterLoss kills an indexer when it has stored a request after the lost one.
func (c *crash) killAfterLoss(p *process) {
	c.t.Helper()
	rabbittest.Eventually(c.t, "a bulk is stored after the lost one", func() bool { return c.laterBulks.Load() > 0 })
	p.kill()
}

func (c *crash) wantOrder(events []schemas.Event) {
	c.t.Helper()
	c.wantSequencesRising(events)
	for n, event := range events {
		if number := numberOf(c.t, event); number != n {
			c.t.Fatalf("event %d is order %d", n, number)
		}
	}
}

// There may be more redelivered messages than the first prefetch of a new indexer. Those
// that it requeues for a larger prefetch would come after the rest of them.
func TestRedeliveredMessagesStayInOrder(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		c := newCrash(t, b)
		const count = 640
		c.publish(c.messages("order", count)...)
		c.consumeAndRequeue(c.topology.Index(), count)
		c.publish(c.messages("order", count+10)[count:]...)
		c.wantOrder(c.finish(c.store, count+10, c.start(c.store, nil)))
	})
}

func (s *system) consumeAndRequeue(queue string, count int) {
	s.t.Helper()
	channel := s.Channel(s.t)
	if err := channel.Qos(count, 0, false); err != nil {
		s.t.Fatal(err)
	}
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for range count {
		rabbittest.Receive(s.t, deliveries)
	}
	if err := channel.Close(); err != nil {
		s.t.Fatal(err)
	}
}
