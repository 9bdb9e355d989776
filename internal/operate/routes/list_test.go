package routes

import (
	"errors"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/schemas"
)

func TestARouteWithoutAConsumer(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	if got := s.all(t)["orders"]; got.State != "no consumer" || got.Consumers != 0 || got.Foreign {
		t.Errorf("%+v", got)
	}
}

func TestARouteThatRuns(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	for _, process := range []string{"host:1", "host:2", "host:1"} {
		s.consume(t, "orders", role.Consumer{Role: role.Routes, Process: process}.Tag())
	}
	got := s.all(t)["orders"]
	if got.State != "running" || got.Consumers != 3 {
		t.Errorf("%+v", got)
	}
	if slices.Sort(got.Processes); !slices.Equal(got.Processes, []string{"host:1", "host:2"}) {
		t.Errorf("%q", got.Processes)
	}
}

func TestConsumersOfOtherProgramsAreNoProcesses(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	s.consume(t, "orders", "theirs")
	if got := s.all(t)["orders"]; got.State != "running" || len(got.Processes) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestMessagesAreReadyOrInFlight(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	for range 3 {
		must(t, s.channel.Publish("", "orders", false, false, amqp.Publishing{}))
	}
	rabbittest.Eventually(t, "the messages wait", func() bool { return s.broker.Len(t, "orders") == 3 })
	if _, there, err := s.channel.Get("orders", false); !there || err != nil {
		t.Fatal(there, err)
	}
	if got := s.all(t)["orders"]; got.Messages != 2 || got.InFlight == nil || *got.InFlight != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAQueueOfAnotherProgramMayBeMissing(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	if got := s.all(t)["invoices"]; got.State != "no queue" || !got.Foreign {
		t.Errorf("%+v", got)
	}
	s.declare(t, "invoices", nil)
	if got := s.all(t)["invoices"]; got.State != "no consumer" || !got.Foreign {
		t.Errorf("%+v", got)
	}
}

// Processes with other configurations bind the queues of their routes as this one does.
func TestRoutesOfOtherProcesses(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	s.declare(t, "shipping", nil)
	s.declare(t, "theirs", nil)
	direct := s.System.Topology().Direct()
	must(t, s.channel.QueueBind("shipping", "shipping", direct, false, nil))
	must(t, s.channel.QueueBind("theirs", "another-key", direct, false, nil))
	states, err := s.States(t.Context(), false)
	must(t, err)
	var queues []string
	for _, state := range states {
		queues = append(queues, state.Queue)
	}
	if want := []string{"orders", "invoices", "shipping"}; !slices.Equal(queues, want) {
		t.Errorf("%q, want %q", queues, want)
	}
	if states[2].Foreign {
		t.Error("a route of another process of Watership can be paused")
	}
}

func TestAParkingQueueIsNoRoute(t *testing.T) {
	s := newSite(t, `WATERSHIP_ROUTES=[{queue: orders, park: true, handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	if all := s.all(t); len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

func TestTheMembersOfTheConfiguration(t *testing.T) {
	s := newSite(t, `WATERSHIP_ROUTES=[{queue: orders, schema: orders.json, handler: {http: {url: "http://127.0.0.1:1/"}}}, {queue: invoices}]`)
	all := s.all(t)
	if !all["orders"].Schema || all["invoices"].Schema {
		t.Errorf("%+v", all)
	}
	if len(all["orders"].Retry) == 0 {
		t.Error("the policy of a route is not told")
	}
}

// breaker is an event of the circuit breaker of a route.
func breaker(action schemas.Action, queue string, at time.Time) schemas.Event {
	return schemas.Event{Action: action, State: schemas.State{
		Time: at, Queue: queue, FirstFailed: at.Add(-time.Minute).Truncate(time.Millisecond).UTC(), Failure: schemas.Failure{Type: "http.Status", Message: "refused"},
	}}
}

func TestARouteThatTheBreakerHasPaused(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond).UTC()
	for name, test := range map[string]struct {
		events []schemas.Event
		want   bool
	}{
		"no event":             {nil, false},
		"paused":               {[]schemas.Event{breaker(schemas.Paused, "orders", now)}, true},
		"resumed":              {[]schemas.Event{breaker(schemas.Paused, "orders", now.Add(-time.Second)), breaker(schemas.Resumed, "orders", now)}, false},
		"paused again":         {[]schemas.Event{breaker(schemas.Resumed, "orders", now.Add(-time.Second)), breaker(schemas.Paused, "orders", now)}, true},
		"another route":        {[]schemas.Event{breaker(schemas.Paused, "invoices", now)}, false},
		"a process that ended": {[]schemas.Event{breaker(schemas.Paused, "orders", now.Add(-maxPausedAge-time.Second))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, ordersAndInvoices)
			systemtest.Record(t, s.System, test.events...)
			got := s.all(t)["orders"]
			if (got.State == "paused") != test.want {
				t.Errorf("%+v", got)
			}
			if test.want && (got.Error != "refused" || got.ByHand || !got.Since.Equal(now.Add(-time.Minute))) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The event of an operator is no sign of a breaker: the broker knows what operators paused.
func TestAnEventOfAnOperatorPausesNothing(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	e := breaker(schemas.Paused, "orders", time.Now())
	e.Failure.Type = pause.ByOperator
	systemtest.Record(t, s.System, e)
	if got := s.all(t)["orders"]; got.State != "no consumer" {
		t.Errorf("%+v", got)
	}
}

func TestRecentMessages(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	var events []schemas.Event
	for n := range 20 {
		events = append(events, schemas.Event{Action: schemas.Handled, State: schemas.State{Queue: "orders", Duration: time.Duration(n+1) * time.Second}})
	}
	for _, attempt := range []int{1, 3, 2} {
		events = append(events, schemas.Event{Action: schemas.RetryScheduled, State: schemas.State{Queue: "orders", Attempt: attempt}})
	}
	events = append(events,
		schemas.Event{Action: schemas.Handled, State: schemas.State{Queue: "orders", Time: time.Now().Add(-recentAge - time.Minute)}},
		schemas.Event{Action: schemas.Handled, State: schemas.State{Queue: "invoices", Duration: time.Hour}})
	systemtest.Record(t, s.System, events...)
	states, err := s.States(t.Context(), true)
	must(t, err)
	got := states[0].Recent
	if got == nil || got.Handled != 20 || got.Median != 11 || got.P95 != 20 || got.Retried != 3 || got.Attempt != 3 {
		t.Fatalf("%+v", got)
	}
	if want := states[0].Retry[0].Attempts - 3; got.Left == nil || *got.Left != want {
		t.Errorf("%v attempts are left, want %d", got.Left, want)
	}
	if other := states[1].Recent; other.Handled != 1 || other.Left != nil {
		t.Errorf("%+v", other)
	}
}

func TestRecentIsOnRequest(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	if got := s.all(t)["orders"].Recent; got != nil {
		t.Errorf("%+v", got)
	}
}

// Without a store, the states are those that RabbitMQ knows.
func TestStatesWithoutAStore(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.Pause(t.Context(), "orders", because("night")))
	store, err := s.System.Store(t.Context())
	must(t, err)
	closing, closes := store.(interface{ Close() error })
	if !closes {
		t.Fatal("the store cannot be closed")
	}
	must(t, closing.Close())
	states, err := s.States(t.Context(), false)
	if err == nil || len(states) != 2 || states[0].State != "paused" || !states[0].ByHand {
		t.Errorf("%+v, %v", states, err)
	}
}

func TestStatesNeedABroker(t *testing.T) {
	s := Service{System: systemtest.New(t, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/")}
	if states, err := s.States(t.Context(), false); err == nil || states != nil {
		t.Errorf("%+v", states)
	}
}

func TestWhyARouteIsPaused(t *testing.T) {
	for want, state := range map[string]RouteState{
		"the route of queue orders is paused: refused":                 {Error: "refused"},
		"the route of queue orders is paused by hand: night (ann)":     {ByHand: true, Error: "night (ann)"},
		"the route of queue orders is paused with all routes: upgrade": {WithAll: true, Error: "upgrade"},
		"the route of queue orders is paused by hand":                  {ByHand: true, WithAll: true},
	} {
		state.Queue = "orders"
		if got := state.PauseText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// isMistake reports whether an error is about the input of an operator.
func isMistake(err error) bool {
	var input system.InputError
	return errors.As(err, &input)
}
