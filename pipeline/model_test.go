package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/admission"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/deadletter"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/pipeline/internal/throttle"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

const (
	modelMessages = 6
	modelAttempts = 4
)

// In every schedule, whatever step a crash or an error comes between: each
// message ends handled or poisoned, is at every moment in some place, and is
// tried no more often than its policy says but for duplicates of crashes.
func TestModel(t *testing.T) { testModel(t, 400) }

func TestSoakModel(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("long: set WATERSHIP_TEST_SOAK=1")
	}
	testModel(t, 20_000)
}

func testModel(t *testing.T, schedules uint64) {
	for seed := range schedules {
		m := newModel(t, seed)
		m.broker.faulty = seed%4 > 0
		m.run()
		if t.Failed() {
			t.Fatalf("seed %d; the latest steps:\n%s", seed, strings.Join(m.trace[max(0, len(m.trace)-30):], "\n"))
		}
	}
}

func (m *model) run() {
	defer m.goroutines.Close()
	for range 10_000 {
		if !m.step() {
			m.verify()
			return
		}
		if m.t.Failed() {
			return
		}
	}
	m.t.Error("the messages never come to an end")
}

// model is a system: an own route, a consumer in another language, and the retry
// and poison handlers, which take messages in any order.
type model struct {
	t          *testing.T
	random     *rand.Rand
	broker     *modelBroker
	goroutines usercode.Goroutines
	handlers   map[string]message.NoPublishHandlerFunc
	inHand     *amqp.Delivery

	messages int // with which the schedule begins
	policy   retry.Policy
	outcome  func() error    // of the handler of the route; nil: any
	calls    map[string]int  // of handlers, without those that lose no attempt
	faults   map[string]int  // by message
	foreign  map[string]bool // handled by the other consumer, which does not report
	patient  int             // unavailable outcomes that are left
	clock    time.Duration   // by which the clock of the process is ahead of the broker's
	trace    []string        // what happened, for people
}

func newModel(t *testing.T, seed uint64) *model {
	return newModelOf(t, seed, retry.Policy{
		Delays:  slices.Repeat([]time.Duration{time.Second}, modelAttempts-1),
		Classes: map[string]retry.Policy{"once": {First: time.Minute, Jitter: 1, Attempts: 2}},
	})
}

func newModelOf(t *testing.T, seed uint64, policy retry.Policy) *model {
	random := rand.New(rand.NewPCG(seed, 2))
	m := &model{
		t: t, random: random, messages: modelMessages, policy: policy, calls: map[string]int{}, faults: map[string]int{}, foreign: map[string]bool{}, patient: 5,
		broker: &modelBroker{
			random: random, now: time.Unix(1700000000, 0), queues: map[string][]amqp.Delivery{},
			full: map[string]bool{}, bound: map[string]bool{}, ends: map[string]int{},
		},
	}
	m.broker.check = m.nothingIsLost
	topology := m.broker.topology
	m.broker.declare("own", "foreign", "out", topology.Retry(), topology.Report(), topology.Due(), topology.Poison())
	m.wire()
	for i := range m.messages {
		queue := []string{"own", "foreign"}[i%2]
		d := amqp.Delivery{RoutingKey: queue, Body: fmt.Appendf(nil, "m%d", i)}
		if random.IntN(2) == 0 {
			d.MessageId = string(d.Body)
		}
		_ = m.broker.put(queue, d)
	}
	return m
}

// wire makes the handlers as a pipeline does.
func (m *model) wire() {
	policy := m.policy
	s := m.flow()
	delivery := topology.DirectDelivery{Publisher: m.broker, Binder: m.broker}
	retrier := &retrier{
		messageFlow: s, delivery: delivery, routeOf: func(queue string) Route { return Route{Queue: queue, Policy: &policy, Breaker: &retry.Breaker{}} },
		labels:       call.NewQueueLabels(nil, func(context.Context, string) (bool, error) { return true, nil }),
		deathChecker: &deadletter.Checker{}, retried: []string{deathRejected}, pause: 10 * time.Second, grace: 5 * time.Minute,
	}
	poisoner := &poisoner{messageFlow: s, declare: func(queue string) error {
		return m.broker.operation(func() error { m.broker.declare(queue); return nil })
	}}
	rh := &routeHandler{messageFlow: s, outlet: m.broker, route: Route{Queue: "own", Handler: m.handle, Policy: &policy, Breaker: &retry.Breaker{}, Park: true}}
	rh.admission = admission.New(rh.admissionConfig(), nil)
	m.handlers = map[string]message.NoPublishHandlerFunc{
		"own": rh.handle, s.topology.Retry(): retrier.handleDead, s.topology.Report(): retrier.handleReport, s.topology.Due(): retrier.handleDue,
		s.topology.Poison(): poisoner.handle,
	}
}

// flow returns the operations of handlers on the broker of the model.
func (m *model) flow() *messageFlow {
	ids := 0
	s := &messageFlow{
		verifier: &wire.Verifier{}, publisher: m.broker, delays: m.broker, now: func() time.Time { return m.broker.now.Add(m.clock) },
		frameMax: func() wire.FrameMax { return 0 }, sleep: m.sleep,
		newID:  func() string { ids++; return fmt.Sprint("id", ids) },
		random: m.random.Float64, logger: slog.New(slog.DiscardHandler), metrics: call.NewMetrics(nil), goroutines: &m.goroutines,
	}
	s.heldMessages, s.warnings = output.NewHeld(s.metrics.Held), &throttle.Warnings{}
	s.queueLimiter, s.delayLimiter = output.NewLimiter[publisher](m.broker, nil, time.Hour, queueShare), output.NewLimiter[publisher](m.broker, nil, time.Hour, delayShare)
	return s
}

// sleep lets a held message wait, or ends its delivery.
func (m *model) sleep(context.Context, time.Duration) error {
	if m.random.IntN(3) > 0 {
		return nil
	}
	return context.Canceled
}

// handle is the handler of the route, with any result.
func (m *model) handle(msg *message.Message) ([]*message.Message, error) {
	if m.outcome != nil {
		return nil, m.outcome()
	}
	outcome := m.random.IntN(8)
	if outcome > 5 && m.patient > 0 {
		m.patient--
		if outcome == 6 {
			msg.Nack()
			return nil, nil
		}
		return nil, retry.Unavailable(errBroken)
	}
	m.calls[string(msg.Payload)]++
	switch outcome {
	case 0:
		return nil, retry.Permanent(errBroken)
	case 1:
		return nil, retry.After(time.Duration(m.random.IntN(1000))*time.Second, errBroken)
	case 2:
		return nil, retry.Class("once", errBroken)
	case 4:
		return []*message.Message{NewMessage(schemas.Envelope{RoutingKey: "out", Body: []byte("out")})}, nil
	}
	return nil, errBroken
}

// step is one thing that happens; false when there is nothing more to happen.
func (m *model) step() bool {
	m.meddle()
	ready := m.ready()
	waits := len(m.broker.waiting) > 0
	switch {
	case len(ready) == 0 && !waits:
		return false
	case len(ready) == 0 || waits && m.random.IntN(3) == 0:
		m.broker.pass()
	default:
		queue := ready[m.random.IntN(len(ready))]
		m.consume(queue)
	}
	return true
}

// ready returns the queues with messages that somebody takes.
func (m *model) ready() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.broker.queues)), func(queue string) bool {
		return len(m.broker.queues[queue]) == 0 || queue == "out" || queue == "own.poison"
	})
}

// meddle: queues fill up, are deleted and come back.
func (m *model) meddle() {
	switch m.random.IntN(40) {
	case 0:
		m.broker.full["foreign"] = !m.broker.full["foreign"]
	case 1:
		m.broker.delete("foreign")
	case 2, 3:
		m.broker.declare("foreign")
		m.broker.full["foreign"] = false
	case 4:
		m.broker.queues["own.poison"] = nil
		m.broker.delete("own.poison")
	}
}

// consume takes a message, hands it to its handler and acknowledges it, unless
// the process dies in between.
func (m *model) consume(queue string) {
	d := m.broker.take(queue)
	m.inHand, m.broker.faults = &d, 0
	acknowledged := m.survives(func() bool {
		if queue == "foreign" {
			return m.consumeForeign(d)
		}
		msg, _ := transport.Marshaler{}.Unmarshal(d)
		msg.SetContext(schemas.NewContext(context.Background(), schemas.FromDelivery(d)))
		return m.handlers[queue](msg) == nil && m.broker.fault() == nil
	})
	m.faults[string(d.Body)] += m.broker.faults
	m.trace = append(m.trace, fmt.Sprintf("%s took %s: acknowledged %t, faults %d", queue, d.Body, acknowledged, m.broker.faults))
	if !acknowledged {
		m.broker.queues[queue] = append(m.broker.queues[queue], d)
	}
	m.inHand = nil
	m.nothingIsLost()
}

func (m *model) survives(f func() bool) (acknowledged bool) {
	defer func() {
		if value := recover(); value != nil {
			if _, died := value.(crash); !died {
				panic(value)
			}
		}
	}()
	return f()
}

// consumeForeign is a consumer in another language, which reports or rejects.
func (m *model) consumeForeign(d amqp.Delivery) bool {
	body := string(d.Body)
	if m.random.IntN(2) == 0 {
		return m.report(d)
	}
	m.calls[body]++
	if m.random.IntN(3) == 0 {
		m.foreign[body] = true
		return true
	}
	_ = m.broker.put(m.broker.topology.Retry(), dead(d, "foreign", deathRejected, m.broker.topology.Retry(), d.RoutingKey))
	return true
}

// report is what a consumer does that reports: it acknowledges after the confirm.
func (m *model) report(d amqp.Delivery) bool {
	told := []amqp.Table{
		{"outcome": "handled"},
		{"outcome": "retry"},
		{"outcome": "retry", "delay": int64(m.random.IntN(1_000_000))},
		{"outcome": "retry", "class": "once", "progress": "p"},
		{"outcome": "poison"},
		{"outcome": "none"},
		{"outcome": "unavailable"},
	}[m.random.IntN(7)]
	switch {
	case told["outcome"] != "unavailable":
		m.calls[string(d.Body)]++
	case m.patient == 0:
		return m.report(d)
	default:
		m.patient--
	}
	names := m.broker.topology
	message := rabbit.Message{Exchange: names.Report(), RoutingKey: "foreign", Publishing: reported(d, told)}
	return m.broker.Publish(context.Background(), message) == nil && m.broker.fault() == nil
}

// ended counts the events after which a message needs no place.
func (m *model) ended(body string) (handled, poisoned int) {
	handled, poisoned = m.broker.ends[string(schemas.Handled)+body], m.broker.ends[string(schemas.Poisoned)+body]
	if m.foreign[body] {
		handled++
	}
	return handled, poisoned
}

// nothingIsLost: every message has ended or is in some place.
func (m *model) nothingIsLost() {
	slots := map[string]bool{}
	if m.inHand != nil {
		slots[string(m.inHand.Body)] = true
	}
	for _, queue := range m.broker.queues {
		for _, d := range queue {
			slots[string(d.Body)] = true
		}
	}
	for _, w := range m.broker.waiting {
		slots[string(w.Body)] = true
	}
	for i := range m.messages {
		body := fmt.Sprint("m", i)
		if handled, poisoned := m.ended(body); !slots[body] && handled+poisoned == 0 {
			m.t.Errorf("%s is lost", body)
		}
	}
}

// verify checks the whole schedule once it has ended.
func (m *model) verify() {
	for i := range m.messages {
		body := fmt.Sprint("m", i)
		handled, poisoned := m.ended(body)
		calls, faults := m.calls[body], m.faults[body]
		switch {
		case handled+poisoned == 0:
			m.t.Errorf("%s did not end", body)
		case faults == 0 && handled+poisoned > 1:
			m.t.Errorf("%s was handled %d times and poisoned %d times without a fault", body, handled, poisoned)
		case calls > modelAttempts*(1+faults):
			m.t.Errorf("%s was tried %d times with %d faults, the policy says %d", body, calls, faults, modelAttempts)
		}
	}
	for _, d := range m.broker.log {
		_, state, err := wire.Unwrap(schemas.FromDelivery(d))
		if err != nil || state.Attempt > modelAttempts || state.EventID == "" || strings.HasPrefix(state.EventID, "poison:") {
			m.t.Errorf("event %s of %s: %+v %v", d.RoutingKey, d.Body, state, err)
		}
	}
}
