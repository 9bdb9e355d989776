package pipeline

import (
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// delayRun is messages that have failed once and wait for one of several delays.
type delayRun struct {
	messages int
	delays   []time.Duration

	// rate is how many begin to wait, and later fall due, in a second: they are
	// put where a handler's failure puts them, so that nothing but waiting and
	// coming back is measured. Zero: they fail at the handler, as fast as they go.
	rate int

	failed []atomic.Int64 // when each began to wait, Unix nanoseconds
	late   []atomic.Int64 // of the second attempt; noneYet: it has not come
	left   atomic.Int64
	done   chan struct{}
}

const noneYet = int64(-1 << 62)

// room: quorum queues count whole milliseconds.
const room = time.Millisecond

func TestDelayedMessages(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		run := &delayRun{messages: 500, delays: []time.Duration{100, 200, 300, 500, 1000}}
		for i := range run.delays {
			run.delays[i] *= time.Millisecond
		}
		run.on(t, b)
	})
}

// TestSoakDelayedMessages is the long form, at the rate that the figures in
// docs/benchmarks.md are for.
func TestSoakDelayedMessages(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("long: set WATERSHIP_TEST_SOAK=1")
	}
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		run := &delayRun{messages: 100_000, rate: 500, delays: []time.Duration{1, 2, 5, 10, 20}}
		for i := range run.delays {
			run.delays[i] *= time.Second
		}
		early := run.heapAfter(t, b)
		if p99 := run.lateness(99); p99 >= 100*time.Millisecond {
			t.Errorf("p99 is %s late", p99)
		}
		if growth := int64(heap()) - int64(early); growth > 16<<20 {
			t.Errorf("the heap grew by %d bytes", growth)
		}
	})
}

// heapAfter runs and returns the heap when a fifth of the messages had come back.
func (run *delayRun) heapAfter(t *testing.T, b rabbittest.Broker) (bytes uint64) {
	sampled := make(chan uint64, 1)
	go func() {
		for run.left.Load() == 0 || run.left.Load() > int64(run.messages*4/5) {
			time.Sleep(100 * time.Millisecond)
		}
		sampled <- heap()
	}()
	run.on(t, b)
	return <-sampled
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (run *delayRun) on(t *testing.T, b rabbittest.Broker) {
	run.failed, run.late = make([]atomic.Int64, run.messages), make([]atomic.Int64, run.messages)
	for i := range run.late {
		run.late[i].Store(noneYet)
	}
	run.done = make(chan struct{})
	run.left.Store(int64(run.messages))
	queue := rabbittest.Name(t)
	r := startSilent(t, b, func(c *Config) {
		c.QueueType, c.Logger, c.Breaker.Messages = Quorum, slog.New(slog.DiscardHandler), -1
		policy := retry.Policy{Classes: map[string]retry.Policy{}}
		for i, d := range run.delays {
			policy.Classes[strconv.Itoa(i)] = retry.Policy{Delays: []time.Duration{d}}
		}
		c.Routes = []Route{{Queue: queue, Concurrency: 512, Policy: &policy, Handler: handler(run.handle)}}
	})
	r.follow(r.topology.Log(), func(amqp.Delivery) {})
	r.publish("", queue, amqp.Publishing{Body: []byte("tomorrow")})
	run.publish(r, queue)
	run.wait(t)
	if !publishDelayed(t, b, wire.DelaysOf(r.topology).Queue(24*time.Hour)) {
		t.Error("the message of tomorrow is not waiting")
	}
	for i := range run.late {
		if late := time.Duration(run.late[i].Load()); late < -room {
			t.Errorf("message %d was %s early", i, -late)
		}
	}
	t.Logf("%d messages: late p50 %s, p99 %s, at most %s; earliest %s",
		run.messages, run.lateness(50), run.lateness(99), run.lateness(100), run.lateness(0))
}

func (run *delayRun) handle(msg *message.Message) error {
	now := time.Now()
	i, err := strconv.Atoi(string(msg.Payload))
	if err != nil {
		return retry.After(24*time.Hour, retry.Class("0", errBroken))
	}
	class := i % len(run.delays)
	if retry.AttemptFrom(msg.Context()).Number == 1 {
		run.failed[i].Store(time.Now().UnixNano())
		return retry.Class(strconv.Itoa(class), errBroken)
	}
	due := time.Unix(0, run.failed[i].Load()).Add(run.delays[class])
	if run.late[i].Swap(int64(now.Sub(due))) == noneYet && run.left.Add(-1) == 0 {
		close(run.done)
	}
	return nil
}

func (run *delayRun) publish(r *rig, queue string) {
	began := time.Now()
	for i := range run.messages {
		e := schemas.Envelope{RoutingKey: queue, Body: []byte(strconv.Itoa(i))}
		if run.rate == 0 {
			r.publish("", queue, amqp.Publishing{Body: e.Body, DeliveryMode: amqp.Persistent})
			continue
		}
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(run.rate))))
		now, delay := time.Now(), run.delays[i%len(run.delays)]
		run.failed[i].Store(now.UnixNano())
		state := schemas.State{Fingerprint: e.Fingerprint(), Message: string(e.Body), Delay: delay}
		r.publish(r.topology.Direct(), wire.DelaysOf(r.topology).Queue(delay), wire.DefaultFrameMax.Wrap(e, state.Failed(now, 0, queue, schemas.Failure{Message: "broken"})))
	}
}

func (run *delayRun) wait(t *testing.T) {
	timer := time.NewTimer(slices.Max(run.delays) + 2*rabbittest.Timeout)
	defer timer.Stop()
	select {
	case <-run.done:
	case <-timer.C:
		t.Fatalf("%d messages did not come back", run.left.Load())
	}
}

// lateness is a percentile; 0 is the least and 100 the most.
func (run *delayRun) lateness(percent int) time.Duration {
	late := make([]int64, len(run.late))
	for i := range late {
		late[i] = run.late[i].Load()
	}
	slices.Sort(late)
	return time.Duration(late[min(len(late)*percent/100, len(late)-1)]).Round(time.Microsecond)
}
