package indexer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// faultProxy is a proxy of Elasticsearch that injects faults into bulk requests.
type faultProxy struct {
	URL  string
	real http.Handler
	bulk atomic.Pointer[http.HandlerFunc]
}

func newFaultProxy(t testing.TB) *faultProxy {
	t.Helper()
	target, err := url.Parse(storeURL(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	g := &faultProxy{real: proxy}
	server := httptest.NewUnstartedServer(g)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // connections are broken on purpose
	server.Config.ErrorLog = proxy.ErrorLog
	server.Start()
	t.Cleanup(server.Close)
	g.URL = server.URL
	return g
}

func (g *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if fault := g.bulk.Load(); fault != nil && r.URL.Path == "/_bulk" {
		(*fault)(w, r)
		return
	}
	g.real.ServeHTTP(w, r)
}

// setFault lets bulk requests meet a fault; nil: they reach the server.
func (g *faultProxy) setFault(fault http.HandlerFunc) {
	if fault == nil {
		g.bulk.Store(nil)
		return
	}
	g.bulk.Store(&fault)
}

// rolloverStore is a system with a store whose streams the test rolls over.
type rolloverStore struct {
	*system
	store  *elastic.Store
	stream string
}

func newRolloverStore(t *testing.T, url string) *rolloverStore {
	t.Helper()
	i := &rolloverStore{system: newSystem(t, rabbittest.Newest(t)), stream: streamName()}
	i.store = openStore(t, url, i.stream)
	if err := i.store.Install(patient(t)); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *rolloverStore) rollOver() {
	i.t.Helper()
	ask(i.t, http.MethodPost, "/"+i.stream+"-traffic/_rollover?master_timeout=2m", "")
}

func TestEqualMessagesStayTwo(t *testing.T) {
	t.Parallel()
	i := newRolloverStore(t, storeURL(t))
	run := i.start(i.store, nil)
	named, anonymous := i.message("named", 1), i.message("anonymous", 1)
	anonymous.Properties.MessageID = ""
	i.publish(named, named, anonymous, anonymous) // in one batch
	i.wait(i.store, 4)
	i.publish(named, anonymous) // in another
	i.wait(i.store, 6)
	i.rollOver()
	i.publish(named, anonymous, named, anonymous)
	events := i.finish(i.store, 10, run)
	i.wantSequencesRising(events)
	counts := map[string]int{}
	for _, event := range events {
		counts[event.Fingerprint]++
	}
	for fingerprint, n := range counts {
		if n != 5 {
			t.Errorf("%s: %d events, published 5 times", fingerprint, n)
		}
	}
}

func (s *system) wantSequencesRising(events []schemas.Event) {
	s.t.Helper()
	for n := 1; n < len(events); n++ {
		if events[n].Sequence <= events[n-1].Sequence {
			s.t.Errorf("sequence %d follows %d", events[n].Sequence, events[n-1].Sequence)
		}
	}
}

// The store writes the messages, and the connection to RabbitMQ is lost before they are
// acknowledged, so that they are redelivered.
func TestARedeliveredMessageStaysOne(t *testing.T) {
	for name, rollsOver := range map[string]bool{"in the same index": false, "after a rollover": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newFaultProxy(t)
			i := newRolloverStore(t, g.URL)
			proxy := i.Proxy(t)
			lost := make(chan struct{})
			fault := sync.OnceFunc(func() {
				proxy.Cut()
				if rollsOver {
					i.rollOver()
				}
				g.setFault(nil)
				close(lost)
			})
			g.setFault(func(w http.ResponseWriter, r *http.Request) {
				g.real.ServeHTTP(w, r)
				fault()
			})
			i.publish(i.messages("order", 50)...)
			i.send(poisoned(i.message("order", 0), i.topology, "event-1"))
			run := i.startAt(proxy.URL, i.store, nil)
			rabbittest.Receive(t, closed(lost))
			proxy.Mend()
			// Later messages are stored after the redelivered ones are acknowledged.
			i.publish(i.message("later", 0))
			i.send(poisoned(i.message("later", 0), i.topology, "event-2"))
			i.finish(i.store, 53, run)
			i.wantSequencesRising(i.events(i.store, "event.action: published"))
		})
	}
}

// The answer to a bulk request is lost, and the index rolls over before the request is
// repeated: there is one document of each event.
func TestAnUnansweredBulkIsStoredOnce(t *testing.T) {
	t.Parallel()
	g := newFaultProxy(t)
	i := newRolloverStore(t, g.URL)
	fault := sync.OnceFunc(func() {
		g.setFault(nil)
		i.rollOver()
		panic(http.ErrAbortHandler)
	})
	g.setFault(func(w http.ResponseWriter, r *http.Request) {
		g.real.ServeHTTP(httptest.NewRecorder(), r)
		fault()
	})
	anonymous := i.message("anonymous", 1)
	anonymous.Properties.MessageID = ""
	i.publish(anonymous, i.message("named", 1), i.message("named", 2))
	run := i.start(i.store, nil)
	i.wait(i.store, 3)
	run.stop()
	i.counted(i.store, 3)
}

// Equal messages are redelivered before any of them is stored: each is an event.
func TestEqualRedeliveredMessagesStayTwo(t *testing.T) {
	t.Parallel()
	i := newRolloverStore(t, storeURL(t))
	i.publish(i.message("equal", 1), i.message("other", 2), i.message("equal", 1))
	i.consumeAndRequeue(i.topology.Index(), 3)
	i.wantSequencesRising(i.finish(i.store, 3, i.start(i.store, nil)))
}

// A redelivered message is not an equal one that follows it in the queue and is stored
// first.
func TestEqualMessagesWrittenConcurrentlyStayTwo(t *testing.T) {
	t.Parallel()
	i := newRolloverStore(t, storeURL(t))
	i.publish(i.message("equal", 1))
	i.consumeAndRequeue(i.topology.Index(), 1)
	store := &reorderingStore{testStore: i.store, first: make(chan struct{}, 1), second: make(chan struct{})}
	run := i.start(store, func(cfg *Config) { cfg.Memory = 1 << 30 })
	rabbittest.Receive(t, store.first) // so that the others are in another request
	i.publish(i.message("other", 2), i.message("equal", 1))
	i.wantSequencesRising(i.finish(store, 3, run))
}

// reorderingStore writes the second request before the first.
type reorderingStore struct {
	testStore
	requests      atomic.Int64
	first, second chan struct{} // the first is made, and the second is answered
}

func (o *reorderingStore) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	number := o.requests.Add(1)
	if number == 1 {
		o.first <- struct{}{}
		<-o.second
	}
	results, err := o.testStore.Create(ctx, documents)
	if number == 2 {
		close(o.second)
	}
	return results, err
}

// The same holds for equal messages that are too far apart for one batch.
func TestEqualRedeliveredMessagesInTwoBatchesStayTwo(t *testing.T) {
	t.Parallel()
	i := newRolloverStore(t, storeURL(t))
	messages := i.messages("other", 7)
	for n := range messages {
		messages[n].Body = bytes.Repeat([]byte("x"), 10<<10)
	}
	messages[0], messages[6] = i.message("equal", 1), i.message("equal", 1)
	i.publish(messages...)
	i.consumeAndRequeue(i.topology.Index(), 7)
	run := i.start(i.store, func(cfg *Config) { cfg.Memory = 64 << 10 })
	i.wantSequencesRising(i.finish(i.store, 7, run))
}

// A consumer that changes its prefetch requeues messages that it has not collected. They
// are redelivered, and are not the equal messages that are stored.
func TestEqualMessagesInABacklogStayApart(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for name, ids := range map[string]int{"300 of one id": 1, "64 ids twice": 64} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, store, count := newSystem(t, b), newStore(t, b), max(300*(1/ids), 2*ids)
				messages := make([]schemas.Envelope, count)
				for n := range messages {
					messages[n] = s.message("equal", n%ids)
				}
				s.publish(messages...)
				s.wantSequencesRising(s.finish(store, count, s.start(store, nil)))
			})
		}
	})
}

// An indexer that stops has indexed a part of its deliveries, and the next one gets the
// rest.
func TestEqualMessagesStayApartAcrossARestart(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		const ids = 400
		s := newSystem(t, b)
		store := &slowStore{testStore: newStore(t, b), documents: make(chan int)}
		run := s.start(store, func(cfg *Config) { cfg.Batch.Events = 50 })
		s.publish(s.messages("equal", ids)...)
		for stored := 0; stored < ids; stored += rabbittest.Receive(t, store.documents) {
		}
		s.publish(s.messages("equal", ids)...)
		rabbittest.Receive(t, store.documents)
		go func() {
			for range store.documents { // until the test ends
			}
		}()
		run.stop()
		rabbittest.Eventually(t, "some are in the queue again", func() bool { return s.Len(t, s.topology.Index()) > 0 })
		if left := s.Len(t, s.topology.Index()); left >= ids {
			t.Fatalf("%d messages are left: this shows nothing", left)
		}
		s.wantSequencesRising(s.finish(store, 2*ids, s.start(store, nil)))
		close(store.documents)
	})
}

// slowStore sends the number of documents of each request, and writes them once the test
// has received it.
type slowStore struct {
	testStore
	documents chan int
}

func (s *slowStore) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	select {
	case s.documents <- len(documents):
		return s.testStore.Create(ctx, documents)
	case <-ctx.Done():
		return nil, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "interrupted"}
	}
}

// A redelivered message is not an equal one that was stored yesterday.
func TestARedeliveredMessageIsNotAnOldOne(t *testing.T) {
	t.Parallel()
	i := newRolloverStore(t, storeURL(t))
	yesterday := func(cfg *Config) { cfg.Now = func() time.Time { return time.Now().Add(-24 * time.Hour) } }
	i.publish(i.message("equal", 1))
	i.finish(i.store, 1, i.start(i.store, yesterday))
	i.publish(i.message("other", 2))
	i.finish(i.store, 2, i.start(i.store, nil))
	i.publish(i.message("equal", 1))
	i.consumeAndRequeue(i.topology.Index(), 1)
	i.wantSequencesRising(i.finish(i.store, 3, i.start(i.store, nil)))
}

// closed sends a value once a channel is closed.
func closed(ended <-chan struct{}) <-chan bool {
	values := make(chan bool, 1)
	go func() {
		<-ended
		values <- true
	}()
	return values
}

func poisoned(e schemas.Envelope, topology schemas.Topology, id string) rabbit.Message {
	state := schemas.State{EventID: id, Fingerprint: e.Fingerprint(), Message: "01J", Time: time.Now()}
	return rabbit.Message{Exchange: topology.Events(), RoutingKey: "poisoned", Publishing: wire.DefaultFrameMax.Wrap(e, state)}
}

// A message poisoned on two days has two events; an event that is published twice is one.
func TestPoisonedOnTwoDaysIsTwo(t *testing.T) {
	t.Parallel()
	i := newRolloverStore(t, storeURL(t))
	run := i.start(i.store, nil)
	monday := poisoned(i.message("order", 1), i.topology, "monday")
	tuesday := poisoned(i.message("order", 1), i.topology, "tuesday")
	i.send(monday, tuesday)
	i.wait(i.store, 2)
	i.send(monday, tuesday, poisoned(i.message("order", 1), i.topology, "wednesday"))
	i.finish(i.store, 3, run)
}

// A sequence is never below a stored one, even if the clock is set back, and starts at
// the clock if that is ahead.
func TestTheSequenceFollowsWhatIsStored(t *testing.T) {
	t.Parallel()
	i := newRolloverStore(t, storeURL(t))
	yesterday := func(cfg *Config) { cfg.Now = func() time.Time { return time.Now().Add(-24 * time.Hour) } }
	for n, clock := range []func(*Config){nil, yesterday, nil, yesterday} {
		run := i.start(i.store, clock)
		i.publish(i.messages(fmt.Sprint("run ", n), 10)...)
		i.finish(i.store, 10*(n+1), run)
	}
	events := i.events(i.store, "")
	i.wantSequencesRising(events)
	for n, event := range events {
		if want := fmt.Sprintf("run %d-%d", n/10, n%10); event.Envelope.Properties.MessageID != want {
			t.Errorf("event %d is of %s, want %s", n, event.Envelope.Properties.MessageID, want)
		}
	}
	if ahead := events[0].Sequence - time.Now().UnixMicro(); ahead > 0 {
		t.Errorf("the first sequence is %d µs ahead of the clock", ahead)
	}
}
