package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/subscription"
)

// consume consumes the queues of a role as a process does.
func (s *site) consume(t *testing.T, c role.Consumer) {
	t.Helper()
	for _, queue := range c.Role.Queues(s.Topology) {
		_, err := s.broker.Channel(t).Consume(queue, c.Tag(), false, false, false, false, nil)
		must(t, err)
	}
}

func TestARoleThatNoProcessHas(t *testing.T) {
	s := newSetUpSite(t)
	list := of("roles", Run(t.Context(), s.Config))
	for _, r := range []role.Role{role.Retry, role.Due, role.Poison, role.Index} {
		want(t, list, Warning, fmt.Sprintf("no process has the role %s for ", r), "run watership serve, or a pipeline with Standalone")
	}
}

func TestTheProcessesOfARole(t *testing.T) {
	s := newSetUpSite(t)
	s.consume(t, role.Consumer{Role: role.Retry, Process: "host:1", Policies: "aa"})
	s.consume(t, role.Consumer{Role: role.Retry, Process: "host:2", Policies: "aa"})
	list := of("roles", Run(t.Context(), s.Config))
	want(t, list, OK, "retry runs in host:1, host:2", "")
	wantNone(t, list, "different policies")
}

func TestProcessesWithDifferentPolicies(t *testing.T) {
	s := newSetUpSite(t)
	s.consume(t, role.Consumer{Role: role.Retry, Process: "host:1", Policies: "aa"})
	s.consume(t, role.Consumer{Role: role.Retry, Process: "host:2", Policies: "bb"})
	want(t, of("roles", Run(t.Context(), s.Config)), Warning,
		"processes with the role retry have different policies, and any of them may get a message: host:1 (aa), host:2 (bb)", PoliciesRemedy)
}

func TestAConsumerThatIsNoProcessOfWatership(t *testing.T) {
	s := newSetUpSite(t)
	_, err := s.channel.Consume(names().Poison(), "somebody", false, false, false, false, nil)
	must(t, err)
	want(t, of("roles", Run(t.Context(), s.Config)), Warning, "a consumer that is no process of Watership takes messages from watership.poison: somebody", "bind it to watership.events")
}

// The consumers that RabbitMQ lists are up to five seconds old. The queue itself knows better.
func TestAProcessThatHasJustStarted(t *testing.T) {
	s := newSetUpSite(t)
	s.consume(t, role.Consumer{Role: role.Due, Process: "host:1"})
	s.answer(t, "consumers/%2F", `[]`)
	list := of("roles", Run(t.Context(), s.Config))
	want(t, list, OK, "due runs, RabbitMQ does not list where yet", "")
	wantNone(t, list, "role due for")
}

func TestRoutesThatDoNotRun(t *testing.T) {
	s := newSite(t, oneRoute)
	since := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		state          routes.RouteState
		verdict        Verdict
		detail, remedy string
	}{
		"runs":   {routes.RouteState{Queue: "orders", State: "running"}, OK, "no route is paused", ""},
		"paused": {routes.RouteState{Queue: "orders", State: "paused", Since: &since, Error: "refused"}, Warning, "the route of queue orders is paused: refused", "it resumes by itself"[3:]},
		"by hand": {
			routes.RouteState{Queue: "my orders", State: "paused", ByHand: true}, Warning, "the route of queue my orders is paused by hand", "watership routes resume 'my orders'",
		},
		"with all": {routes.RouteState{Queue: "orders", State: "paused", WithAll: true}, Warning, "paused with all routes", "watership routes resume --all"},
		"no consumer": {
			routes.RouteState{Queue: "orders", State: "no consumer"}, Warning, "queue orders has no consumer", "run watership serve with the role routes",
		},
		"no consumer, with messages": {
			routes.RouteState{Queue: "orders", State: "no consumer", Messages: 2}, Warning, "queue orders has no consumer, and 2 messages in it", "",
		},
		"of another program, with messages": {
			routes.RouteState{Queue: "theirs", State: "no consumer", Messages: 1}, Warning, "queue theirs has no consumer, and 1 message in it", "start the program that consumes it",
		},
		"foreign in the configuration": {
			routes.RouteState{Queue: "orders", State: "no consumer", Foreign: true, Messages: 1}, Warning, "queue orders has no consumer", "start the program that consumes it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Routes = func(context.Context) ([]routes.RouteState, error) { return []routes.RouteState{test.state}, nil }
			want(t, Run(t.Context(), s.Config), test.verdict, test.detail, test.remedy)
		})
	}
}

func TestQueuesOfOtherProgramsMayBeConsumedNowAndThen(t *testing.T) {
	for name, queue := range map[string]rabbit.Queue{"empty": {Name: "theirs"}, "a stream": {Name: "theirs", Type: "stream", Messages: 5}} {
		d := listing(t, settings(t), queue)
		d.records().reportUnconsumed(routes.RouteState{Queue: "theirs", Messages: int(queue.Messages)})
		if len(d.findings) > 0 {
			t.Errorf("%s: %s", name, text(d.findings))
		}
	}
}

func TestAPausedRouteHasItsTime(t *testing.T) {
	since := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	d := listing(t, settings(t))
	d.records().reportPaused(routes.RouteState{Queue: "orders", Since: &since})
	if got := d.findings[0].Since; got == nil || !got.Equal(since) {
		t.Errorf("%v", got)
	}
}

func TestRoutesThatCannotBeRead(t *testing.T) {
	s := newSite(t)
	s.Routes = func(context.Context) ([]routes.RouteState, error) { return nil, errors.New("no routes") }
	list := of("paused", Run(t.Context(), s.Config))
	want(t, list, Warning, "no routes", "")
	wantNone(t, list, "no route is paused")
}

// Lag counts what a queue says itself: the numbers of the management API are some seconds old.
func TestQueuesThatNobodyEmpties(t *testing.T) {
	s := newSetUpSite(t)
	for range 3 {
		must(t, s.channel.Publish("", names().Poison(), false, false, amqp.Publishing{}))
	}
	rabbittest.Eventually(t, "the messages wait", func() bool { return s.broker.Len(t, names().Poison()) == 3 })
	s.answer(t, "queues/%2F", `[{"name":"watership.poison","type":"quorum","messages":99}]`)
	want(t, of("lag", Run(t.Context(), s.Config)), Warning, "watership.poison has 3 messages and no consumer", "run watership serve: nothing records failed messages")
}

func TestLag(t *testing.T) {
	log, index := names().Log(), names().Index()
	for name, test := range map[string]struct {
		queue   rabbit.Queue
		limit   int64
		verdict Verdict
		detail  string
	}{
		"empty":       {rabbit.Queue{Name: log}, 0, OK, log + " has 0 messages"},
		"consumed":    {rabbit.Queue{Name: log, Messages: maxLag, Consumers: 1}, 0, OK, log + " has 10000 messages"},
		"many":        {rabbit.Queue{Name: log, Messages: maxLag + 1, Consumers: 1}, 0, Warning, log + " has 10001 messages"},
		"no consumer": {rabbit.Queue{Name: log, Messages: 1}, 0, Warning, log + " has 1 message and no consumer"},
		"not full":    {rabbit.Queue{Name: index, Messages: 4, Consumers: 1}, 0, OK, index + " has 4 messages"},
	} {
		t.Run(name, func(t *testing.T) {
			d := listing(t, settings(t), test.queue)
			d.Timeout = time.Minute
			d.topology().checkLag(t.Context())
			want(t, d.findings, test.verdict, test.detail, "")
		})
	}
}

func TestAFullIndexQueueDropsItsOldest(t *testing.T) {
	d := listing(t, settings(t))
	d.Timeout, d.Topology.IndexLimit = time.Minute, 5
	d.queues[d.Topology.Index()] = rabbit.Queue{Name: d.Topology.Index(), Messages: 5, Consumers: 1}
	d.topology().checkLag(t.Context())
	want(t, d.findings, Warning, d.Topology.Index()+" is full with 5 messages: its oldest are dropped", "keep up")
}

func TestDelayQueuesThatAreStuck(t *testing.T) {
	s := newSetUpSite(t)
	s.answer(t, "queues/%2F", `[{"name":"watership.wait.1000","type":"quorum","messages_dlx":2}]`)
	want(t, of("delays", Run(t.Context(), s.Config)), Error, "messages have waited long enough and do not get to watership.due from watership.wait.1000", "watership setup declares it")
}

// While the queue of due messages is emptied, delay queues wait for room in it.
func TestDelayQueuesWaitWhileDueMessagesAreTaken(t *testing.T) {
	for name, test := range map[string]struct {
		queues []rabbit.Queue
		want   bool
	}{
		"missing":     {nil, true},
		"empty":       {[]rabbit.Queue{{Name: names().Due(), Consumers: 1}}, true},
		"no consumer": {[]rabbit.Queue{{Name: names().Due(), Messages: 1}}, true},
		"is emptied":  {[]rabbit.Queue{{Name: names().Due(), Messages: 1, Consumers: 1}}, false},
	} {
		if got := listing(t, settings(t), test.queues...).dueIsNotDrained(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// subscribe creates a subscription to a queue on a site.
func (s *site) subscribe(t *testing.T, name string) *subscription.Subscriptions {
	t.Helper()
	all, err := s.system.Subscriptions(t.Context())
	must(t, err)
	from, err := subscription.ParseFrom("now", time.Now())
	must(t, err)
	_, err = all.Create(t.Context(), subscription.Subscription{Name: name, Target: subscription.Target{Kind: subscription.ToQueue, Queue: "q"}}, from)
	must(t, err)
	return all
}

func TestSubscriptionsWithoutAProblem(t *testing.T) {
	s := newSetUpSite(t)
	if list := of("subscriptions", Run(t.Context(), s.Config)); len(list) > 0 {
		t.Error(text(list))
	}
	s.subscribe(t, "all")
	want(t, of("subscriptions", Run(t.Context(), s.Config)), OK, "1 subscription without a problem", "")
}

func TestSubscriptionsThatDeliverNothing(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	s := newSetUpSite(t)
	all := s.subscribe(t, "sync")
	sub, err := all.Get(t.Context(), "sync")
	must(t, err)
	for name, test := range map[string]struct {
		change         func(*subscription.Subscription)
		detail, remedy string
	}{
		"stopped": {
			func(s *subscription.Subscription) { s.State, s.Reason = subscription.Stopped, "no queue" },
			"subscription sync is stopped: no queue", "mend its target, then: watership subscriptions resume sync",
		},
		"an upcast failed": {
			func(s *subscription.Subscription) {
				s.State, s.Reason = subscription.Stopped, subscription.UpcastFailed.Text("a body")
			},
			"subscription sync is stopped: the upcast of the subscription failed", "mend its target",
		},
		"events were removed": {
			func(s *subscription.Subscription) {
				s.State, s.RemovedUpTo, s.Reason = subscription.Stopped, 5, "removed"
			},
			"subscription sync is stopped: removed", "--skip-removed",
		},
		"no process": {
			func(s *subscription.Subscription) { s.Created, s.Changed, s.Checkpoint.Time = long, long, long },
			"no process runs subscription sync", "start watership serve with the role subscriptions",
		},
		"no program": {
			func(s *subscription.Subscription) {
				s.Created, s.Changed, s.Checkpoint.Time, s.Target.Kind = long, long, long, subscription.ToHandler
			},
			"no process runs subscription sync", "start the program that handles its events",
		},
		"waits": {
			func(s *subscription.Subscription) {
				s.Checkpoint.Time, s.Checkpoint.Waiting = time.Now(), "queue is full"
			},
			"subscription sync delivers nothing: queue is full", "watership subscriptions pause sync",
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := sub
			test.change(&changed)
			d := listing(t, settings(t))
			d.records().checkSubscription(t.Context(), all, changed)
			want(t, d.findings, Warning, test.detail, test.remedy)
			if shown := text(d.findings); strings.Contains(shown, "a body") {
				t.Errorf("it quotes a body: %s", shown)
			}
		})
	}
}

func TestASubscriptionThatIsPausedIsNoProblem(t *testing.T) {
	s := newSetUpSite(t)
	all := s.subscribe(t, "all")
	_, err := all.Pause(t.Context(), "all", "ann", "holiday")
	must(t, err)
	want(t, of("subscriptions", Run(t.Context(), s.Config)), OK, "1 subscription without a problem", "")
}

func TestASubscriptionWithAParkedMessage(t *testing.T) {
	s := newSetUpSite(t)
	all := s.subscribe(t, "hooks")
	sub, err := all.Get(t.Context(), "hooks")
	must(t, err)
	sub.Checkpoint.Time, sub.Checkpoint.Parked = time.Now(), 1
	check := func() []Finding {
		d := listing(t, settings(t))
		d.records().checkSubscription(t.Context(), all, sub)
		return d.findings
	}
	if list := check(); len(list) > 0 {
		t.Errorf("before the message is in the list: %s", text(list))
	}
	store, err := s.system.Store(t.Context())
	must(t, err)
	_, err = eventstore.SaveRecord(t.Context(), store, "parked.hooks", "1:event", "", subscription.Parked{Subscription: "hooks", EventID: "event", Cause: subscription.TargetError, Error: "answered 422", Time: time.Now()})
	must(t, err)
	want(t, check(), Warning, "subscription hooks could not deliver 1 message: answered 422", "mend its target, then: watership subscriptions parked hooks --retry")
}
