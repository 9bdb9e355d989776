package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/admission"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Of random messages, good and bad, random outages and any concurrency: every
// message ends; one that the service would handle is handled soon after the
// outage, is no poison because of one, and never has company beyond the concurrency
// of its route; bad ones are poison, in as many attempts as the policy says; and
// the service is left alone while it is unavailable.
func TestBreakerModel(t *testing.T) { testBreakerModel(t, 60) }

func TestSoakBreakerModel(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("long: set WATERSHIP_TEST_SOAK=1")
	}
	testBreakerModel(t, 2000)
}

func testBreakerModel(t *testing.T, seeds uint64) {
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			m := newOutageModel(t, seed)
			m.run()
			if t.Failed() {
				t.Fatalf("seed %d: %+v", seed, m)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// outageModel is a route, its service, and a broker that loses nothing.
type outageModel struct {
	t           *testing.T
	random      *rand.Rand
	concurrency int
	messages    int
	bad         map[string]bool
	outages     []modelOutage
	queue       *modelQueue
	policy      retry.Policy
	breaker     retry.Breaker

	mu       sync.Mutex
	handling int
	ends     map[string]modelEnd
	calls    []time.Time
	paused   []time.Time // of the `paused` events
}

func (m *outageModel) String() string {
	return fmt.Sprintf("%d messages, %d bad, %d at once, outages %+v, breaker %+v", m.messages, len(m.bad), m.concurrency, m.outages, m.breaker)
}

// modelOutage is a time in which every attempt fails with one error.
type modelOutage struct {
	from, to time.Time
	err      error
	waits    bool // the error alone makes a message wait
}

// modelEnd is how a message ended.
type modelEnd struct {
	action schemas.Action
	state  schemas.State
}

func newOutageModel(t *testing.T, seed uint64) *outageModel {
	random := rand.New(rand.NewPCG(seed, 3))
	m := &outageModel{
		t: t, random: random, concurrency: 1 + random.IntN(20), messages: 30 + random.IntN(200),
		bad: map[string]bool{}, ends: map[string]modelEnd{}, queue: newModelQueue(),
		policy:  retry.Policy{Delays: []time.Duration{time.Second, 10 * time.Second, 30 * time.Second}},
		breaker: retry.Breaker{MaxAlike: 1 + random.IntN(5)}.WithDefaults(),
	}
	at := time.Now()
	for range random.IntN(4) {
		from := at.Add(time.Duration(random.IntN(60)) * time.Second)
		at = from.Add(time.Duration(1+random.IntN(600)) * time.Second)
		outage := modelOutage{from: from, to: at}
		switch random.IntN(4) {
		case 0:
			outage.err = &webhook.StatusError{Status: 500}
		case 1:
			outage.err = fmt.Errorf("asking: %w", context.DeadlineExceeded)
		default:
			outage.err, outage.waits = retry.Unavailable(errBroken), true
		}
		m.outages = append(m.outages, outage)
	}
	worst := random.IntN(3) // a third of schedules has no bad message
	for i := range m.messages {
		if worst > 0 && (i < 40*(worst-1) || random.IntN(5) == 0) {
			m.bad[fmt.Sprint("m", i)] = true
		}
	}
	return m
}

func (m *outageModel) run() {
	m.play(func(int) time.Duration { // most are there at the beginning
		return time.Duration(max(0, m.random.IntN(400)-300)) * time.Second
	})
	m.verify()
}

// play handles the messages, each of which is published after its arrival.
func (m *outageModel) play(arrival func(message int) time.Duration) {
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	metrics := call.NewMetrics(nil)
	goroutines := &usercode.Goroutines{}
	defer goroutines.Close()
	ids := 0
	for i := range m.messages {
		body := fmt.Sprint("m", i)
		time.AfterFunc(arrival(i), func() {
			m.queue.put(amqp.Delivery{RoutingKey: "orders", Body: []byte(body), MessageId: body})
		})
	}
	rh := &routeHandler{
		messageFlow: &messageFlow{
			verifier: &wire.Verifier{}, publisher: m, now: time.Now, logger: slog.New(slog.DiscardHandler), metrics: metrics,
			frameMax: func() wire.FrameMax { return 0 }, sleep: backoff.Sleep, heldMessages: output.NewHeld(metrics.Held), goroutines: goroutines,
			queueLimiter: output.NewLimiter[publisher](m, nil, time.Hour, queueShare), delayLimiter: output.NewLimiter[publisher](m, nil, time.Hour, delayShare),
			newID: func() string { m.mu.Lock(); defer m.mu.Unlock(); ids++; return fmt.Sprint("id", ids) },
		},
		outlet: m,
		route:  Route{Queue: "orders", Handler: handler(m.handle), Policy: &m.policy, Breaker: &m.breaker, Concurrency: m.concurrency},
	}
	cfg := rh.admissionConfig()
	cfg.StopTimeout = time.Minute
	rh.admission = admission.New(cfg, nil)
	subscriber := rh.admission.Subscriber(m.queue.subscriber(m.concurrency), m.queue.subscriber(1))
	var routing sync.WaitGroup
	messages, err := subscriber.Subscribe(ctx, "orders")
	if err != nil {
		m.t.Fatal(err)
	}
	routing.Go(func() {
		for msg := range messages {
			routing.Go(func() {
				defer subscriber.Settled(msg)
				if rh.handle(msg) != nil {
					msg.Nack()
					return
				}
				msg.Ack()
			})
		}
	})
	m.wait()
	cancel()
	_ = subscriber.Close()
	routing.Wait()
}

// wait waits for the end of every message.
func (m *outageModel) wait() {
	ended := 0
	for deadline := time.Now().Add(48 * time.Hour); time.Now().Before(deadline); time.Sleep(time.Minute) {
		m.mu.Lock()
		ended = len(m.ends)
		m.mu.Unlock()
		if ended == m.messages {
			return
		}
	}
	m.t.Errorf("%d of %d messages ended", ended, m.messages)
}

func (m *outageModel) outageAt(at time.Time) *modelOutage {
	for i, o := range m.outages {
		if !at.Before(o.from) && at.Before(o.to) {
			return &m.outages[i]
		}
	}
	return nil
}

// handle is the handler, with its service.
func (m *outageModel) handle(msg *message.Message) error {
	m.mu.Lock()
	m.handling++
	if m.handling > m.concurrency {
		m.t.Errorf("%d messages are handled at once", m.handling)
	}
	took := time.Duration(m.random.IntN(50)) * time.Millisecond
	m.calls = append(m.calls, time.Now())
	m.mu.Unlock()
	time.Sleep(took)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handling--
	if o := m.outageAt(time.Now()); o != nil {
		return o.err
	}
	if m.bad[string(msg.Payload)] {
		return &webhook.StatusError{Status: 404}
	}
	return nil
}

// Publish is the broker: a delay queue, or the end of a message.
func (m *outageModel) Publish(_ context.Context, sent rabbit.Message) error {
	e, state, err := wire.Unwrap(schemas.FromDelivery(deliveryOf(sent)))
	if err != nil {
		return err
	}
	switch key := sent.RoutingKey; {
	case strings.HasPrefix(key, wire.DelaysOf(schemas.Topology{}).Queue(0)[:len(wire.DelaysOf(schemas.Topology{}).Queue(0))-1]):
		p := wire.DefaultFrameMax.WrapForQueue(e, state, "")
		time.AfterFunc(state.Delay, func() {
			m.queue.put(deliveryOf(rabbit.Message{Exchange: schemas.Topology{}.Return(), RoutingKey: e.RoutingKey, Publishing: p}))
		})
	case key == string(schemas.Paused):
		m.mu.Lock()
		defer m.mu.Unlock()
		m.paused = append(m.paused, time.Now())
	case key == string(schemas.Handled):
		m.end(string(e.Body), modelEnd{schemas.Handled, state})
	case key == (schemas.Topology{}.Poison()):
		m.end(string(e.Body), modelEnd{schemas.Poisoned, state})
	}
	return nil
}

func (m *outageModel) PublishAll(context.Context, []rabbit.Message) []error { return nil }

func (m *outageModel) end(body string, end modelEnd) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other, twice := m.ends[body]; twice {
		m.t.Errorf("%s is %s after it was %s", body, end.action, other.action)
	}
	m.ends[body] = end
}

func (m *outageModel) verify() {
	onlyWaits, last := true, time.Time{}
	for _, o := range m.outages {
		onlyWaits, last = onlyWaits && o.waits, o.to
	}
	for body, end := range m.ends {
		switch {
		case m.bad[body] && end.action != schemas.Poisoned:
			m.t.Errorf("%s is bad, and %s", body, end.action)
		case m.bad[body] && end.state.Attempt != 4:
			m.t.Errorf("%s is %s at attempt %d", body, end.action, end.state.Attempt)
		case !m.bad[body] && onlyWaits && (end.action != schemas.Handled || end.state.Attempt > max(1, len(m.outages))):
			// An outage costs an attempt only of a message that it met after another one.
			m.t.Errorf("%s is good, and %s at attempt %d", body, end.action, end.state.Attempt)
		case !m.bad[body] && !last.IsZero() && end.state.Time.After(last.Add(15*time.Minute)):
			m.t.Errorf("%s is %s %s after the last outage", body, end.action, end.state.Time.Sub(last))
		case end.state.Attempt > 4 || end.state.Waits > m.breaker.MaxWaits:
			m.t.Errorf("%s is %s with %+v", body, end.action, end.state)
		}
	}
	m.verifyCalls()
}

// verifyCalls: after it has opened the breaker lets few messages through to a
// service that does not answer.
func (m *outageModel) verifyCalls() {
	for _, o := range m.outages {
		calls := 0
		for _, at := range m.calls {
			if !at.Before(o.from) && at.Before(o.to) {
				calls++
			}
		}
		rounds := 8 + int(o.to.Sub(o.from)/m.breaker.Cap)
		if most := 2*m.concurrency + m.breaker.Messages*(rounds+2); o.waits && calls > most {
			m.t.Errorf("%d calls in the outage %+v, want %d at most", calls, o, most)
		}
	}
}

// modelQueue is a queue in memory.
type modelQueue struct {
	mu    sync.Mutex
	ready []amqp.Delivery
	more  chan struct{} // closed when there is more
}

func newModelQueue() *modelQueue { return &modelQueue{more: make(chan struct{})} }

func (q *modelQueue) put(d amqp.Delivery) { q.change(func() { q.ready = append(q.ready, d) }) }

func (q *modelQueue) putBack(d amqp.Delivery) {
	q.change(func() { q.ready = append([]amqp.Delivery{d}, q.ready...) })
}

func (q *modelQueue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	close(q.more)
	q.more = make(chan struct{})
}

func (q *modelQueue) take(ctx context.Context) (amqp.Delivery, bool) {
	for {
		q.mu.Lock()
		if len(q.ready) > 0 && ctx.Err() == nil {
			d := q.ready[0]
			q.ready = q.ready[1:]
			q.mu.Unlock()
			return d, true
		}
		more := q.more
		q.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return amqp.Delivery{}, false
		}
	}
}

// modelSubscriber hands out so many messages of a queue at once.
type modelSubscriber struct {
	queue *modelQueue
	many  int
}

func (q *modelQueue) subscriber(many int) modelSubscriber { return modelSubscriber{q, many} }

func (modelSubscriber) Close() error { return nil }

func (s modelSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	var handing sync.WaitGroup
	for range s.many {
		handing.Go(func() {
			for d, ok := s.queue.take(ctx); ok; d, ok = s.queue.take(ctx) {
				s.deliverAll(ctx, out, d)
			}
		})
	}
	go func() {
		handing.Wait()
		close(out)
	}()
	return out, nil
}

func (s modelSubscriber) deliverAll(ctx context.Context, out chan<- *message.Message, d amqp.Delivery) {
	msg, _ := transport.Marshaler{}.Unmarshal(d)
	msg.SetContext(schemas.NewContext(context.WithoutCancel(ctx), schemas.FromDelivery(d)))
	select {
	case out <- msg:
	case <-ctx.Done():
		s.queue.putBack(d)
		return
	}
	select {
	case <-msg.Acked():
	case <-msg.Nacked():
		s.queue.putBack(d)
	}
}
