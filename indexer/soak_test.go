package indexer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// soak skips long tests unless WATERSHIP_TEST_SOAK is set.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("long: set WATERSHIP_TEST_SOAK=1")
	}
}

func TestSoakSeveralIndexers(t *testing.T) {
	soak(t)
	testSeveral(t, 100, 1000)
}

const (
	soakMessages = 200_000
	soakPace     = 1000 // messages a second, so that faults fall among them
)

// TestSoakFaults publishes 200,000 messages, of which a tenth are lifecycle
// events, while every fault of the wire, of the servers and of the indexer's
// process happens again and again. It restarts the servers that scripts/services
// started, and so is to be alone with them.
func TestSoakFaults(t *testing.T) {
	soak(t)
	g := newFaultProxy(t)
	i := newRolloverStore(t, g.URL)
	storm := &faultInjector{rolloverStore: i, gate: g, proxy: i.Proxy(t), injected: map[string]int{}}
	storm.startIndexer()
	feed := &confirmedFeed{system: i.system, published: map[string]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		feed.run(soakMessages, soakPace)
	}()
	i.wait(i.store, 1)
	storm.run(done)
	feed.await(i.store)
	storm.indexer.stop()
	t.Logf("faults injected: %v", storm.injected)
	for _, queue := range i.topology.Indexed() {
		if left := i.Len(t, queue); left > 0 {
			t.Errorf("%d messages in %s are indexed and not acknowledged", left, queue)
		}
	}
	for _, order := range []eventstore.Order{eventstore.BySequence, eventstore.NewestFirst} {
		feed.wantEachOnce(i.store, order)
	}
	i.wantNoneTwiceInOneIndex()
	documents, err := i.store.Count(patient(t), i.selection(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d confirmed, %d unconfirmed; %d documents, of which readers leave out %d",
		feed.certain, len(feed.published)-feed.certain, documents, documents-int64(feed.read))
}

// faultInjector injects faults.
type faultInjector struct {
	*rolloverStore
	gate     *faultProxy
	proxy    *rabbittest.Proxy
	indexer  *process
	injected map[string]int // how often each fault happened
}

func (s *faultInjector) startIndexer() {
	s.indexer = s.startProcess(processConfig{Broker: s.proxy.URL, Store: s.gate.URL, Stream: s.stream})
}

// run injects the faults in random order until done is closed and all have happened.
// Restarts are rare, since they take long.
func (s *faultInjector) run(done <-chan struct{}) {
	restarts := s.restarts()
	for turn := 0; ; turn++ {
		faults := s.faults()
		if turn%10 == 3 {
			maps.Copy(faults, restarts)
		}
		for name, fault := range faults {
			fault()
			s.injected[name]++
			time.Sleep(rand.N(500 * time.Millisecond)) // until the next fault, at random
		}
		select {
		case <-done:
			if turn >= 4 {
				return
			}
		default:
		}
	}
}

func (s *faultInjector) faults() map[string]func() {
	lasts := func() { time.Sleep(500*time.Millisecond + rand.N(time.Second)) } // the fault itself
	toxic := func(json string) func() {
		return func() {
			s.proxy.Add(json)
			lasts()
			s.proxy.Remove("it")
		}
	}
	all := map[string]func(){
		"rollover":  s.rollOver,
		"SIGKILL":   func() { s.indexer.kill(); s.startIndexer() },
		"read-only": func() { s.block("true"); lasts(); s.block("null") },
		"broker: a lost connection": func() {
			s.proxy.Cut()
			lasts()
			s.proxy.Mend()
		},
		"broker: a slow line":                               toxic(`{"name":"it","type":"bandwidth","attributes":{"rate":200}}`),
		"broker: cut in mid-frame":                          toxic(`{"name":"it","type":"limit_data","attributes":{"bytes":100000}}`),
		"broker: in small pieces":                           toxic(`{"name":"it","type":"slicer","attributes":{"average_size":100,"size_variation":50,"delay":10}}`),
		"a rollover between a reset and what is sent again": s.wire(resetAndRollOver(s.rolloverStore)),
	}
	for name, fault := range wireFaults() {
		all[name] = s.wire(fault)
	}
	return all
}

// resetAndRollOver lets a repeated request reach another index.
func resetAndRollOver(i *rolloverStore) fault {
	var once sync.Once
	return func(g *faultProxy, w http.ResponseWriter, r *http.Request) {
		g.forward(r)
		once.Do(i.rollOver)
		reset(w)
	}
}

// wire lets every other bulk request meet a fault for a while.
func (s *faultInjector) wire(fault fault) func() {
	return func() {
		var requests atomic.Int64
		met := make(chan struct{}, 1)
		s.gate.setFault(func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1)%2 == 0 {
				s.gate.real.ServeHTTP(w, r)
				return
			}
			select {
			case met <- struct{}{}:
			default:
			}
			fault(s.gate, w, r)
		})
		select {
		case <-met:
		case <-time.After(5 * time.Second): // nothing is left to be indexed
		}
		time.Sleep(rand.N(time.Second)) // the fault itself
		s.gate.setFault(nil)
	}
}

// restarts are of the servers that a test may restart.
func (s *faultInjector) restarts() map[string]func() {
	all := map[string]func(){}
	for _, pair := range strings.Fields(os.Getenv("WATERSHIP_TEST_SERVICES_STARTED")) {
		name, url, _ := strings.Cut(pair, "=")
		if url != s.URL && url != storeURL(s.t) {
			continue
		}
		for _, verb := range []string{"stop", "kill"} {
			all[verb+" "+name] = func() {
				s.services(verb, name)
				s.services("start", name)
			}
		}
	}
	return all
}

func (s *faultInjector) services(verb, name string) {
	if out, err := exec.Command(os.Getenv("WATERSHIP_TEST_SERVICES"), verb, name).CombinedOutput(); err != nil {
		s.t.Errorf("%s %s: %v\n%s", verb, name, err, out)
	}
}

// wantNoneTwiceInOneIndex asks Elasticsearch itself, since readers leave out duplicates.
func (i *rolloverStore) wantNoneTwiceInOneIndex() {
	i.t.Helper()
	answer := ask(i.t, http.MethodPost, "/"+i.stream+"-traffic,"+i.stream+"-failures/_search?filter_path=**.twice.buckets", `{
		"size": 0, "aggs": {"index": {"terms": {"field": "_index", "size": 10000}, "aggs": {
			"action": {"terms": {"field": "event.action"}, "aggs": {
				"twice": {"terms": {"field": "messaging.message.id", "min_doc_count": 2, "size": 3}}}}}}}}`)
	if !strings.Contains(answer, `"twice"`) || strings.Contains(answer, `"key"`) {
		i.t.Errorf("twice in one index: %s", answer)
	}
}

// TestSoakPastTheAcknowledgementTimeout fails the store for longer than RabbitMQ's
// acknowledgement time-out, which a consumer that never acknowledges measures. An indexer
// requeues its messages in time; one that holds them for too long loses its channel.
func TestSoakPastTheAcknowledgementTimeout(t *testing.T) {
	soak(t)
	const count = 500
	for name, test := range map[string]struct {
		giveBack  time.Duration
		takenBack bool
	}{
		"given back in time": {time.Second, false},
		"taken back":         {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newFaultProxy(t)
			s := newSystem(t, rabbittest.Newest(t))
			s.acknowledgeWithin(5 * time.Second)
			store := newStoreAt(t, g.URL)
			g.setFault(func(w http.ResponseWriter, r *http.Request) { answer(503, "")(g, w, r) })
			run := s.start(store, func(cfg *Config) { cfg.RequeueAfter = test.giveBack })
			s.publish(s.messages("order", count)...)
			rabbittest.Eventually(t, "it holds messages", func() bool { return s.log.Count("did not accept every document") > 0 })
			s.wantTimeout(s.neverAcknowledged())
			if test.takenBack {
				rabbittest.Eventually(t, "the broker takes them back", func() bool { return s.log.Count(timedOut) > 0 })
			} else if s.log.Count("requeued the unacknowledged messages") < 2 || s.log.Count(timedOut) > 0 {
				t.Errorf("they were not requeued in time:\n%s", s.log)
			}
			g.setFault(nil)
			s.wantEachOnce(s.finish(store, count, run))
		})
	}
}

// timedOut begins RabbitMQ's error after the acknowledgement time-out.
const timedOut = "PRECONDITION_FAILED - delivery acknowledgement"

// neverAcknowledged starts a consumer that never acknowledges, on a queue like the
// indexer's. It returns the reason why RabbitMQ closes the channel.
func (s *system) neverAcknowledged() <-chan *amqp.Error {
	s.t.Helper()
	channel, queue := s.Channel(s.t), s.topology.Prefix+".never"
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	args := amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true}
	if _, err := channel.QueueDeclare(queue, true, false, false, false, args); err != nil {
		s.t.Fatal(err)
	}
	s.DeleteQueue(s.t, queue)
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.send(rabbit.Message{RoutingKey: queue})
	rabbittest.Receive(s.t, deliveries)
	return closed
}

// wantTimeout waits until the broker closes a channel because it waited too long.
func (s *system) wantTimeout(closed <-chan *amqp.Error) {
	s.t.Helper()
	select {
	case reason := <-closed:
		if reason == nil || reason.Code != amqp.PreconditionFailed || !strings.Contains(reason.Error(), timedOut) {
			s.t.Fatalf("the channel of a consumer that never acknowledges was closed with: %v", reason)
		}
	case <-time.After(3 * time.Minute):
		s.t.Fatalf("the broker waits on for a consumer that never acknowledges:\n%s", s.log)
	}
}

// acknowledgeWithin sets the acknowledgement time-out of the test's queues. RabbitMQ checks
// each channel once a minute.
func (s *system) acknowledgeWithin(timeout time.Duration) {
	s.t.Helper()
	rabbittest.NeedServices(s.t)
	s.Service(s.t, "ctl", "set_policy", s.topology.Prefix, "^"+regexp.QuoteMeta(s.topology.Prefix),
		fmt.Sprintf(`{"consumer-timeout": %d}`, timeout.Milliseconds()), "--apply-to", "queues")
	s.t.Cleanup(func() { s.Service(s.t, "ctl", "clear_policy", s.topology.Prefix) })
}
