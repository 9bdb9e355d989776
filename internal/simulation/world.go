package simulation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
)

// The parts of a run, in virtual time.
const (
	settling   = 10 * time.Second // of the processes, before the first message
	publishing = 4 * time.Minute
	quiet      = 15 * time.Minute // at most, after the last message

	waitForBodies = 15 * time.Minute // of events that may still get one
)

// Plan is what happens in a run.
type Plan struct {
	Seed       uint64
	Processes  int
	Consumers  int  // of a queue of another program
	Receivers  bool // of subscriptions
	Projectors int  // of one projection
	Profile    Profile
	Clocks     []time.Duration // how far the processes and then the operator are ahead; nil: all are right
	Faults     []Fault
	Actions    []Action // of an operator
	Outages    []Outage // of the service that handlers need
}

// Result has the outcome of a run.
type Result struct {
	Violations []string
	Trace      string // digest of the timeline, and of the frames that the network has delivered
	Timeline   []string
	Messages   int // confirmed
	Calls      int // of handlers
}

// world is a running simulation.
type world struct {
	seed    uint64
	profile Profile
	environ []string
	network *network
	broker  *broker.Broker
	store   system.ClosableStore
	began   time.Time

	processes  []*process
	consumers  []*consumer
	receivers  receivers
	projectors projectors
	restarts   sync.WaitGroup // of processes that a handler has ended
	late       sync.WaitGroup // requests that the store carries out after their answer
	oracle     *oracle
	watch      storeWatch

	mu       sync.Mutex // guards the fields below
	timeline []string
	trace    hash.Hash
	failures []string
	offsets  int
	reloads  int
	after    []<-chan struct{} // ends of killed processes
}

// Run runs a plan in a new bubble.
func Run(t *testing.T, plan Plan) (result Result) {
	path := filepath.Join(folder(t), "store.db")
	t.Run(fmt.Sprintf("seed=%d", plan.Seed), func(t *testing.T) {
		if err := useTimeOfTheBubble(); err != nil {
			t.Fatal(err)
		}
		cryptotest.SetGlobalRandom(t, plan.Seed)
		rand.Reader = &reader{ids: rand.Reader, seed: plan.Seed}
		synctest.Test(t, func(t *testing.T) { result = run(t, plan, path) })
	})
	return result
}

// folder returns a folder for the time of the test, in memory where the system has such folders:
// a store writes much, and power failures are not simulated. All names are equally long, since the memory
// of the process depends on it.
func folder(t *testing.T) string {
	for n := range 10_000 {
		path := fmt.Sprintf("/dev/shm/watership%04d", n)
		switch err := os.Mkdir(path, 0o700); {
		case err == nil:
			t.Cleanup(func() { _ = os.RemoveAll(path) })
			return path
		case !errors.Is(err, fs.ErrExist):
			return t.TempDir()
		}
	}
	return t.TempDir()
}

func run(t *testing.T, plan Plan, path string) Result {
	w := &world{
		seed: plan.Seed, profile: plan.Profile, trace: sha256.New(), began: time.Now(),
		broker: broker.New(broker.Config{LoopbackUsers: []string{}, Release: plan.Profile.Release}),
	}
	w.receivers.world = w
	w.projectors.world, w.projectors.path = w, filepath.Join(filepath.Dir(path), "projection.db")
	w.network = newNetwork(plan.Seed, w.broker, w.noteFrames)
	closeHTTP := w.network.serve("broker:15672", w.broker.Management())
	w.environ = []string{
		"WATERSHIP_AMQP_URL=" + brokerURL, "WATERSHIP_AMQP_MANAGEMENT_URL=" + managementURL, "WATERSHIP_TOPOLOGY_QUEUE_TYPE=" + plan.Profile.QueueType,
		"WATERSHIP_STORE_URL=sqlite:" + path, "WATERSHIP_SOURCE=simulation", "WATERSHIP_HTTP_LISTEN=",
	}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err == nil {
		err = store.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.store, w.oracle = store, newOracle(w, plan)
	if err := w.declareUsers(t.Context()); err != nil {
		t.Fatal(err)
	}

	for i := range plan.Processes {
		w.processes = append(w.processes, &process{name: fmt.Sprintf("serve%d", i), world: w, routes: w.routes, clock: plan.clockOf(i)})
	}
	for _, p := range w.processes {
		p.start()
		time.Sleep(time.Second)
	}
	time.Sleep(settling)
	working, endWork := context.WithCancel(t.Context())
	defer endWork()
	operator, err := newOperator(working, w, plan.clockOf(plan.Processes))
	if err != nil {
		t.Fatal(err)
	}

	endConsumers, endReceivers := w.startConsumers(working, plan.Consumers, operator), func() {}
	if plan.Receivers {
		endReceivers = w.receivers.start(working, operator)
	}
	endProjectors := w.projectors.start(working, plan.Projectors)

	var faults sync.WaitGroup
	for _, a := range plan.Actions {
		faults.Go(func() {
			time.Sleep(a.At)
			operator.clock.run(func() { operator.act(working, a) })
		})
	}
	for _, f := range plan.Faults {
		faults.Go(func() {
			time.Sleep(f.At)
			w.inflict(working, operator, f)
		})
	}
	w.publishAll(firstPublishers, w.began.Add(settling+publishing))
	faults.Wait()
	for _, p := range w.processes {
		p.start()
	}
	w.awaitRest()

	w.restarts.Wait()
	checkReady(w)
	for _, p := range w.processes {
		p.stop()
	}
	w.processes[0].start() // does not wait for anything that the others have left
	w.publishAll("last", time.Now().Add(settling))
	w.awaitRest()
	w.processes[0].stop()
	for _, ended := range w.after {
		<-ended
	}
	endWork()
	endConsumers()
	endReceivers()
	endProjectors()
	operator.close()
	w.late.Wait()
	w.oracle.check(context.Background())
	w.receivers.check(context.Background())
	w.projectors.check(context.Background())
	closeHTTP()
	_ = w.broker.Close()
	for _, s := range w.network.of("") {
		s.cut()
	}
	_ = store.Close()
	time.Sleep(time.Minute) // connections end
	return w.result()
}

// startConsumers starts consumers of another program's queue until ctx ends. wait returns when they have ended.
func (w *world) startConsumers(ctx context.Context, n int, operator *operator) (wait func()) {
	var running sync.WaitGroup
	if n == 0 {
		return running.Wait
	}
	if err := w.declareForeign(); err != nil {
		w.fail("the queue of the consumers: %v", err)
	}
	operator.add(ctx, foreignQueue)
	for i := range n {
		c, offset := newConsumer(w, i), time.Duration(w.nextOffset())
		w.consumers = append(w.consumers, c)
		running.Go(func() { c.run(ctx, offset) })
	}
	return running.Wait
}

// awaitRest waits until nothing moves any more, or reports what does not.
func (w *world) awaitRest() {
	longest := quiet
	if w.oracle.losses.hasBodiless() {
		longest += waitForBodies + w.oracle.plan.mostApart() // by the clock of a process
	}
	end := time.Now().Add(longest)
	for {
		unfinished := w.oracle.unfinished()
		if len(unfinished) == 0 {
			unfinished = append(w.receivers.unfinished(context.Background()), w.projectors.unfinished(context.Background())...)
		}
		if len(unfinished) == 0 {
			return
		}
		if time.Now().After(end) {
			for _, text := range unfinished {
				w.fail("after %s: %s", longest, text)
			}
			return
		}
		time.Sleep(5 * time.Second)
	}
}

// routes returns the routes of a life.
func (w *world) routes(l *life) []pipeline.Route {
	return []pipeline.Route{
		{
			Queue: plainQueue, Bind: []pipeline.Binding{{Exchange: exchange, Key: plainQueue + ".#"}},
			Policy: policy(), Handler: w.oracle.handler(l, plainQueue),
		},
		{
			Queue: orderedQueue, Bind: []pipeline.Binding{{Exchange: exchange, Key: orderedQueue + ".#"}},
			Policy: policy(), Handler: w.oracle.handler(l, orderedQueue),
			Fairness: pipeline.Fairness{Key: keyOf, Ordered: true},
		},
		{Queue: foreignQueue, Policy: policy()}, // which another program declares
	}
}

// note adds a line to the timeline.
func (w *world) note(who, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%12s %-10s %s", time.Since(w.began).Round(time.Microsecond), who, text)
	w.timeline = append(w.timeline, line)
	_, _ = io.WriteString(w.trace, line+"\n")
}

// noteFrames adds to the trace the frames that a host sends or receives.
func (w *world) noteFrames(host, direction string, frames []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = fmt.Fprintln(w.trace, time.Since(w.began), host, direction, len(frames))
	_, _ = w.trace.Write(frames)
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// nextOffset returns a number of nanoseconds that no other actor has.
func (w *world) nextOffset() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offsets++
	return w.offsets * 7
}

func (w *world) afterLife(ended <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = append(w.after, ended)
}

func (w *world) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Result{
		Violations: slices.Clone(w.failures), Timeline: w.timeline, Trace: hex.EncodeToString(w.trace.Sum(nil))[:16],
		Messages: w.oracle.confirmed(), Calls: len(w.oracle.calls),
	}
}
