package routes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

func TestConfiguredRoutesAreFirst(t *testing.T) {
	cfg := Config{Routes: []pipeline.Route{{Queue: "orders"}, {Queue: "bills"}}}
	if got := cfg.queues([]string{"mail", "orders", "archive", "mail"}); !slices.Equal(got, []string{"orders", "bills", "archive", "mail"}) {
		t.Errorf("%q", got)
	}
}

func TestEventsOfOtherSystemsAreNotOfARoute(t *testing.T) {
	cfg := Config{VHost: "/", Source: "shop"}
	for name, test := range map[string]struct {
		vhost, source string
		want          bool
	}{"the same": {"/", "shop", true}, "another vhost": {"v", "shop", false}, "another source": {"/", "bank", false}} {
		if got := cfg.has(schemas.Event{VHost: test.vhost, Source: test.source}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWithoutASourceEventsOfAllAreOfTheRoute(t *testing.T) {
	if !(Config{VHost: "/"}).has(schemas.Event{VHost: "/", Source: "bank"}) {
		t.Error("the event is of another system")
	}
}

func TestAPauseWithoutAnEventHasNoTime(t *testing.T) {
	s := RouteState{State: "running"}
	if s.pausedBy(schemas.Event{}); s.State != "paused" || s.Since != nil || s.Error != "" {
		t.Errorf("%+v", s)
	}
}

func TestAPauseReplacesThatOfTheBreaker(t *testing.T) {
	earlier, now := time.Now().Add(-time.Hour), time.Now()
	s := RouteState{State: "paused", Since: &earlier, Error: "refused"}
	e := schemas.Event{State: schemas.State{Time: now, Failure: schemas.Failure{Message: "the database moves (ann)"}}}
	if s.pausedBy(e); !s.Since.Equal(now) || s.Error != "the database moves (ann)" {
		t.Errorf("%+v", s)
	}
}

func TestAttemptsOfClasses(t *testing.T) {
	list := []Schedule{{Attempts: 5}, {Class: "timeout", Attempts: 9}}
	for class, want := range map[string]int{"": 5, "timeout": 9, "another": 5} {
		if got := attemptsOf(list, class); got != want {
			t.Errorf("%q: %d attempts, want %d", class, got, want)
		}
	}
	if got := attemptsOf(nil, "timeout"); got != 0 {
		t.Errorf("without a policy: %d attempts", got)
	}
}

func TestTheDelaysOfAScheduleAreBounded(t *testing.T) {
	policy := retry.Policy{First: time.Second, Factor: 1, Cap: time.Second, Attempts: maxDelays + 50}
	got := schedules(&policy, midnight())[0]
	if len(got.Delays) != maxDelays || got.Attempts != maxDelays+50 || got.Total != maxDelays+49 {
		t.Errorf("%d delays, %d attempts, %v seconds", len(got.Delays), got.Attempts, got.Total)
	}
}

func TestOneAttemptHasNoDelays(t *testing.T) {
	if diff := cmp.Diff([]Schedule{{Attempts: 1, Delays: []float64{}}}, schedules(&retry.Policy{}, midnight())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// recent returns how the latest messages of orders fared.
func (s site) recent(t *testing.T) *Recent {
	t.Helper()
	states, err := s.States(t.Context(), true)
	must(t, err)
	for _, state := range states {
		if state.Queue == "orders" {
			return state.Recent
		}
	}
	t.Fatalf("no route of orders in %+v", states)
	return nil
}

func TestNoRecentMessages(t *testing.T) {
	if got := newSite(t, ordersAndInvoices).recent(t); got.Handled != 0 || got.Retried != 0 || got.Median != 0 || got.P95 != 0 || got.Left != nil {
		t.Errorf("%+v", got)
	}
}

func TestOneRecentMessage(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	systemtest.Record(t, s.System, schemas.Event{Action: schemas.Handled, State: schemas.State{Queue: "orders", Duration: 250 * time.Millisecond}})
	if got := s.recent(t); got.Handled != 1 || got.Median != 0.25 || got.P95 != 0.25 {
		t.Errorf("%+v", got)
	}
}

func TestRecentMessagesAreBounded(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	var events []schemas.Event
	for n := range recentEvents + 5 {
		events = append(events, schemas.Event{Action: schemas.Handled, State: schemas.State{Queue: "orders", EventID: fmt.Sprint("handled-", n)}})
	}
	systemtest.Record(t, s.System, events...)
	if got := s.recent(t); got.Handled != recentEvents {
		t.Errorf("%d messages", got.Handled)
	}
}

func TestNoAttemptIsLeftBeyondThePolicy(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	systemtest.Record(t, s.System, schemas.Event{Action: schemas.RetryScheduled, State: schemas.State{Queue: "orders", Attempt: 99}})
	if got := s.recent(t); got.Left == nil || *got.Left != 0 || got.Attempt != 99 {
		t.Errorf("%+v", got)
	}
}

func TestARouteOfAServerIsNotInItsConfiguration(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	s.Handlers = func() pipeline.Config { return pipeline.Config{Routes: []pipeline.Route{{Queue: "reloaded"}}} }
	states, err := s.States(t.Context(), false)
	must(t, err)
	if states[0].Queue != "reloaded" || states[0].State != "no queue" {
		t.Errorf("%+v", states)
	}
}

func TestARouteWithASchemaSaysSo(t *testing.T) {
	s := newSite(t, `WATERSHIP_ROUTES=[{queue: orders, schema: /nowhere.json, handler: {http: {url: "http://127.0.0.1:1/"}}}, {queue: bills, handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	states := s.all(t)
	if !states["orders"].Schema || states["bills"].Schema {
		t.Errorf("%+v", states)
	}
}

func TestARouteWithoutAHandlerIsOfAnotherProgram(t *testing.T) {
	states := newSite(t, ordersAndInvoices).all(t)
	if states["orders"].Foreign || !states["invoices"].Foreign {
		t.Errorf("%+v", states)
	}
}

func TestARouteOfAnotherProgramIsNotPausedWithAll(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.PauseAll(t.Context(), because("an upgrade")))
	states := s.all(t)
	if !states["orders"].WithAll || states["invoices"].WithAll || states["invoices"].State == "paused" {
		t.Errorf("%+v", states)
	}
}

func TestAPauseByHandIsToldBeforeThatOfAll(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	must(t, s.PauseAll(t.Context(), because("an upgrade")))
	must(t, s.Pause(t.Context(), "orders", because("the database moves")))
	if got := s.all(t)["orders"]; !got.ByHand || !got.WithAll || got.State != "paused" {
		t.Errorf("%+v", got)
	}
}

func TestPausingTwiceIsOnePause(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	for _, why := range []string{"the database moves", "it still does"} {
		must(t, s.Pause(t.Context(), "orders", because(why)))
	}
	done, err := s.Resume(t.Context(), "orders", reason.Decision{Operator: "ann"})
	must(t, err)
	if got := s.all(t)["orders"]; got.ByHand || got.State == "paused" {
		t.Errorf("after %+v: %+v", done, got)
	}
}

func TestHandlersHaveTheRoutesOfTheConfiguration(t *testing.T) {
	sys := systemtest.New(t, ordersAndInvoices, "WATERSHIP_TOPOLOGY_QUEUE_TYPE=classic")
	cfg := Handlers(sys)
	var queues []string
	for _, route := range cfg.Routes {
		queues = append(queues, route.Queue)
	}
	if !slices.Equal(queues, []string{"orders", "invoices"}) || cfg.QueueType != pipeline.Classic || cfg.Default == nil {
		t.Errorf("%q, %s, %+v", queues, cfg.QueueType, cfg.Default)
	}
}

func TestAnOrderedRouteFindsItsFailures(t *testing.T) {
	sys := systemtest.New(t, `WATERSHIP_ROUTES=[
		{queue: orders, ordering: {class: later, key: "{headers.account}"}, handler: {http: {url: "http://127.0.0.1:1/"}}},
		{queue: bills, ordering: {class: later, key: "{message.id}"}, handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	routes := Handlers(sys).Routes
	if routes[0].Ordering.Open == nil {
		t.Error("the store is not asked about a key that it can find")
	}
	if routes[1].Ordering.Open != nil {
		t.Error("the store is asked about a key that it cannot find")
	}
}
