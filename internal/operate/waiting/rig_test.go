package waiting

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// rig is a pipeline with a route whose handler fails at the first attempt, and the events
// that it publishes. Messages whose ids begin with soon- wait 100 ms for the second one,
// and those with later- 500 s.
type rig struct {
	t        *testing.T
	broker   rabbittest.Broker
	topology schemas.Topology
	queue    string
	path     string // of the store
	control  Control
	admin    *amqp.Channel
	away     atomic.Bool // the store of the process that returns due messages

	mu      sync.Mutex // guards the fields below
	changed chan struct{}
	retried map[string]int                    // second attempts by message id
	waiting map[string]WaitingMessage         // by message id
	events  map[schemas.Action]map[string]int // number by action and message id
	due     map[string]time.Time              // time of the second attempt

	last, rescheduled map[string]schemas.Event // the latest of all, and of these
}

var errBroken = errors.New("broken")

func newRig(t *testing.T, b rabbittest.Broker, kind pipeline.QueueType, delay time.Duration) *rig {
	t.Helper()
	return newRigWith(t, b, kind, retry.Policy{Delays: []time.Duration{delay}})
}

func newRigWith(t *testing.T, b rabbittest.Broker, kind pipeline.QueueType, policy retry.Policy) *rig {
	t.Helper()
	path := systemtest.StoreFile(t)
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := &rig{
		t: t, path: path, broker: b.VHost(t), topology: schemas.Topology{Prefix: "w-" + string(kind)}, queue: "orders-" + string(kind), changed: make(chan struct{}),
		retried: map[string]int{}, waiting: map[string]WaitingMessage{}, events: map[schemas.Action]map[string]int{},
		last: map[string]schemas.Event{}, rescheduled: map[string]schemas.Event{}, due: map[string]time.Time{},
	}
	logged := &rabbittest.Log{}
	log := logged.Logger()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(logged)
		}
	})
	r.control = Control{Topology: r.topology, Broker: rabbit.Config{URL: r.broker.URL, Name: "waiting", Logger: log}, Records: store}
	r.start(pipeline.Config{
		Connection: rabbitmq.Connection{URL: r.broker.URL}, Topology: r.topology, QueueType: kind, Standalone: true, Logger: log,
		Decisions: NewDecisions(r.open(store)).Find, ReturnPause: 100 * time.Millisecond,
		Routes: []pipeline.Route{{Queue: r.queue, Policy: &policy, Handler: r.handle, Breaker: &retry.Breaker{Messages: -1}}},
	})
	r.admin = r.broker.Channel(t)
	r.follow()
	return r
}

// open returns the store, or an error while the process that returns due messages has none.
func (r *rig) open(store Records) func(context.Context) (Records, error) {
	return func(context.Context) (Records, error) {
		if r.away.Load() {
			return nil, errors.New("the store is away")
		}
		return store, nil
	}
}

func (r *rig) handle(msg *message.Message) ([]*message.Message, error) {
	e, _ := schemas.FromContext(msg.Context())
	switch first := retry.AttemptFrom(msg.Context()).Number == 1; {
	case first && strings.HasPrefix(e.Properties.MessageID, "soon-"):
		return nil, retry.After(100*time.Millisecond, errBroken)
	case first && strings.HasPrefix(e.Properties.MessageID, "later-"):
		return nil, retry.After(500*time.Second, errBroken)
	case first:
		return nil, errBroken
	}
	r.update(func() {
		r.retried[e.Properties.MessageID]++
		r.due[e.Properties.MessageID] = time.Now()
	})
	return nil, nil
}

func (r *rig) start(cfg pipeline.Config) {
	p, err := pipeline.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	select {
	case <-p.Running():
	case err := <-ended:
		ended <- err
		r.t.Fatal(err)
	}
}

// follow reads the events.
func (r *rig) follow() {
	ch := r.broker.Channel(r.t)
	deliveries, err := ch.Consume(r.topology.Log(), "", true, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() { // ends with the connection
		for d := range deliveries {
			e, err := wire.Decoder{Topology: r.topology}.Lifecycle(d, time.Now(), 0)
			if err == nil && !e.Action.OfNoMessage() {
				r.see(e)
			}
		}
	}()
}

func (r *rig) see(e schemas.Event) {
	id := e.Envelope.Properties.MessageID
	r.update(func() {
		if r.events[e.Action] == nil {
			r.events[e.Action] = map[string]int{}
		}
		r.events[e.Action][id]++
		r.last[id] = e
		if e.Action == schemas.RetryScheduled || e.Action == schemas.Rescheduled {
			r.waiting[id] = newMessage(e)
		}
		if e.Action == schemas.Rescheduled {
			r.rescheduled[id] = e
		}
	})
}

func (r *rig) update(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

// until waits for a condition about the fields that mu guards.
func (r *rig) until(what string, condition func() bool) {
	r.t.Helper()
	timeout := time.After(rabbittest.Timeout)
	for {
		r.mu.Lock()
		met, changed := condition(), r.changed
		r.mu.Unlock()
		if met {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			r.t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// publish publishes messages with the ids PREFIX-0, PREFIX-1 and so on, and waits until
// all of them wait for their second attempt.
func (r *rig) publish(prefix string, n int) []string {
	r.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i)
		err := r.admin.PublishWithContext(r.t.Context(), "", r.queue, true, false, amqp.Publishing{MessageId: ids[i], DeliveryMode: 2, Body: []byte(ids[i])})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	r.until("messages wait", func() bool {
		for _, id := range ids {
			if _, waits := r.waiting[id]; !waits {
				return false
			}
		}
		return true
	})
	return ids
}

func (r *rig) messages(ids []string) []WaitingMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []WaitingMessage
	for _, id := range ids {
		list = append(list, r.waiting[id])
	}
	return list
}

func (r *rig) decide(d Decision, ids []string) Result {
	r.t.Helper()
	d.Operator, d.Reason = "alice", "a test"
	began := time.Now()
	defer func() { r.t.Logf("%s took %s", d.Action, time.Since(began)) }()
	result, err := r.control.Decide(r.t.Context(), d, r.messages(ids))
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// waitLen waits until a queue has as many messages.
func (r *rig) waitLen(queue string, n int) {
	r.t.Helper()
	rabbittest.Eventually(r.t, fmt.Sprintf("%s has %d messages", queue, n), func() bool {
		q, err := r.admin.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		return q.Messages == n
	})
}
