package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline"
)

// allNames returns the names of Watership's queues, with the delay queues of the default policy.
func allNames() []string {
	list := names().Queues()
	for _, delay := range (pipeline.Config{}).Delays() {
		list = append(list, wire.DelaysOf(names()).Queue(delay))
	}
	return list
}

// ownQueues returns Watership's queues as setup declares them.
func ownQueues() (list []rabbit.Queue) {
	for _, name := range allNames() {
		list = append(list, rabbit.Queue{Name: name, Type: "quorum"})
	}
	return list
}

// with returns the queues of a list, one of them changed.
func with(list []rabbit.Queue, name string, change func(*rabbit.Queue)) []rabbit.Queue {
	for i := range list {
		if list[i].Name == name {
			change(&list[i])
		}
	}
	return list
}

func TestOwnQueues(t *testing.T) {
	log := names().Log()
	for name, test := range map[string]struct {
		queues         []rabbit.Queue
		verdict        Verdict
		detail, remedy string
	}{
		"all there": {ownQueues(), OK, fmt.Sprintf("%d queues are there and unlimited", len(ownQueues())), ""},
		"one is missing": {
			ownQueues()[1:], Error, "missing: " + log, "run watership setup",
		},
		"another type": {
			with(ownQueues(), log, func(q *rabbit.Queue) { q.Type = "classic" }),
			Error, "of type classic, while the configuration says quorum: " + log, "set topology.queue_type to it",
		},
		"down": {
			with(ownQueues(), log, func(q *rabbit.Queue) { q.State = "down" }), Error, "queue " + log + " is down", "bring back the nodes",
		},
		"minority": {
			with(ownQueues(), log, func(q *rabbit.Queue) { q.State = "minority" }), Error, "queue " + log + " is minority", "bring back the nodes",
		},
		"limited by a policy": {
			with(ownQueues(), log, func(q *rabbit.Queue) {
				q.Policy, q.Effective = "all", map[string]any{"message-ttl": 1000.0, "delivery-limit": 3.0}
			}),
			Error, `policy "all" limits what must not be dropped (delivery-limit 3, message-ttl 1000) in 1 queue: ` + log,
			`--priority 1 --apply-to queues watership-unlimited '^watership\.' '{"max-length":2147483647}'`,
		},
		"limited by an operator policy": {
			with(ownQueues(), log, func(q *rabbit.Queue) {
				q.OperatorPolicy, q.Effective = "ops", map[string]any{"expires": 1000.0}
			}),
			Error, `operator policy "ops" limits what must not be dropped (expires 1000)`, `narrow the pattern of operator policy "ops"`,
		},
		"limited by both": {
			with(ownQueues(), log, func(q *rabbit.Queue) {
				q.Policy, q.OperatorPolicy, q.Effective = "all", "ops", map[string]any{"overflow": "drop-head"}
			}),
			Error, `policy "all" and operator policy "ops" limits`, `narrow the pattern of operator policy "ops"`,
		},
		"a limit that is none": {
			with(ownQueues(), log, func(q *rabbit.Queue) {
				q.Policy, q.Effective = "ours", map[string]any{"delivery-limit": float64(unlimited)}
			}),
			OK, "are there and unlimited", "",
		},
		"a policy without limits": {
			with(ownQueues(), log, func(q *rabbit.Queue) {
				q.Policy, q.Effective = "ours", map[string]any{"queue-leader-locator": "balanced"}
			}),
			OK, "are there and unlimited", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := listing(t, settings(t), test.queues...)
			d.topology().checkOwnQueues()
			want(t, d.findings, test.verdict, test.detail, test.remedy)
			if len(d.findings) != 1 {
				t.Errorf("%d findings\n%s", len(d.findings), text(d.findings))
			}
		})
	}
}

const dropsReachServices = `policy "all" sends what Watership drops on purpose to the dead-letter exchange "dlx", and so to services: `

// Queues without a dead-letter exchange as an argument follow a policy for all queues.
func TestWhatIsDroppedOnPurposeReachesNoService(t *testing.T) {
	s := newSite(t)
	s.savePolicy(t, rabbit.Policy{Name: "all", Pattern: ".*", ApplyTo: "queues", Priority: 3, Definition: map[string]any{"dead-letter-exchange": "dlx"}})
	s.setUp(t)
	want(t, s.limits(t), Error, dropsReachServices+"watership.paused", `--priority 4 --apply-to queues watership-unlimited '^watership\.' '{"max-length":2147483647}'`)

	s.savePolicy(t, rabbit.Policy{Name: "watership-unlimited", Pattern: `^watership\.`, ApplyTo: "queues", Priority: 4, Definition: map[string]any{"max-length": unlimited}})
	if list := s.limits(t); len(list) != 0 {
		t.Errorf("after the remedy:\n%s", text(list))
	}
}

func TestTheOldestCopiesThatAreDroppedReachNoService(t *testing.T) {
	s := newSite(t, "WATERSHIP_TAP_WHEN_FULL=drop_oldest", "WATERSHIP_TAP_LIMIT=9")
	s.savePolicy(t, rabbit.Policy{Name: "all", Pattern: ".*", ApplyTo: "all", Definition: map[string]any{"dead-letter-exchange": "dlx"}})
	s.setUp(t)
	want(t, s.limits(t), Error, dropsReachServices+s.Topology.IndexLate()+", watership.paused", "")
}

// RabbitMQ tells the policies of a new queue some seconds late.
func TestPoliciesOfNewQueues(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		b = b.VHost(t)
		sys := systemtest.New(t, "WATERSHIP_AMQP_URL="+b.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+b.ManagementURL)
		s := &site{system: sys, broker: b, Config: Config{
			Settings: sys.Settings(), Topology: sys.Topology(), Pipeline: routes.Handlers(sys), VHost: sys.VHost(), Timeout: 10 * time.Second, Management: sys.Management, Connect: sys.Dial,
		}}
		s.savePolicy(t, rabbit.Policy{Name: "all", Pattern: `^(?!amq\.).*`, ApplyTo: "queues", Priority: 1, Definition: map[string]any{"max-length": 50000, "message-ttl": 60000}})
		s.savePolicy(t, rabbit.Policy{Name: "others", Pattern: `^(?!watership\.).*`, ApplyTo: "queues", Priority: 2, Definition: map[string]any{"max-length": 1}})
		s.setUp(t)
		want(t, s.limits(t), Error, fmt.Sprintf(`policy "all" limits what must not be dropped (max-length 50000, message-ttl 60000) in %d queues`, len(allNames())), "--priority 2")
	})
}

func TestOperatorPoliciesOfNewQueues(t *testing.T) {
	s := newSetUpSite(t)
	s.answer(t, "queues/%2F", `[{"name":"watership.log","type":"quorum"},{"name":"watership.due","type":"quorum","effective_policy_definition":{}}]`)
	s.answer(t, "policies/%2F", `[{"name":"all","pattern":".*","apply-to":"queues","definition":{"max-length":9,"message-ttl":60000}}]`)
	s.answer(t, "operator-policies/%2F", `[{"name":"ops","pattern":"log$","apply-to":"queues","definition":{"max-length":5,"expires":70000}}]`)
	list := s.limits(t)
	want(t, list, Error, `policy "all" and operator policy "ops" limits what must not be dropped (expires 70000, max-length 5, message-ttl 60000) in 1 queue: watership.log`, "narrow the pattern")
	// RabbitMQ has not applied the policy to it yet.
	want(t, list, Error, `policy "all" limits what must not be dropped (max-length 9, message-ttl 60000) in 1 queue: watership.due`, "")
}

// The remedy is for queues of every type: RabbitMQ applies no policy with a delivery limit to a classic one.
func TestTheRemedyIsForClassicQueues(t *testing.T) {
	s := newSite(t, "WATERSHIP_TOPOLOGY_QUEUE_TYPE=classic")
	s.savePolicy(t, rabbit.Policy{Name: "all", Pattern: ".*", ApplyTo: "queues", Definition: map[string]any{"max-length": 5}})
	s.setUp(t)
	want(t, s.limits(t), Error, `policy "all" limits what must not be dropped (max-length 5)`, `'{"max-length":2147483647}'`)
	s.savePolicy(t, rabbit.Policy{Name: "watership-unlimited", Pattern: `^watership\.`, ApplyTo: "queues", Priority: 1, Definition: map[string]any{"max-length": unlimited}})
	if list := s.limits(t); len(list) != 0 {
		t.Errorf("after the remedy:\n%s", text(list))
	}
}

func TestQueuesOfAnotherTypeAreOneFinding(t *testing.T) {
	d := listing(t, settings(t, "WATERSHIP_TOPOLOGY_QUEUE_TYPE=classic"), ownQueues()...)
	d.topology().checkOwnQueues()
	want(t, d.findings, Error, "of type quorum, while the configuration says classic: ", "delete those that are empty, and run watership setup")
	if len(d.findings) != 1 {
		t.Errorf("%d findings\n%s", len(d.findings), text(d.findings))
	}
}

// tap.queue_type is of the queues of tap copies alone.
func TestQueuesOfTapCopiesMayHaveAnotherType(t *testing.T) {
	d := listing(t, settings(t))
	d.Topology.ClassicIndex = true
	for _, name := range append(d.Topology.Queues(), allNames()...) {
		kind := "quorum"
		if name == d.Topology.Index() || name == d.Topology.IndexLate() {
			kind = "classic"
		}
		d.queues[name] = rabbit.Queue{Name: name, Type: kind}
	}
	d.topology().checkOwnQueues()
	want(t, d.findings, OK, "are there", "")
	d.queues[d.Topology.Index()] = rabbit.Queue{Name: d.Topology.Index(), Type: "quorum"}
	d.topology().checkOwnQueues()
	want(t, d.findings, Error, "of type quorum, while the configuration says classic: "+d.Topology.Index(), "")
}

// The remedy is a policy that wins against the one that limits.
func TestTheRemedyHasAHigherPriority(t *testing.T) {
	limited := with(ownQueues(), names().Log(), func(q *rabbit.Queue) { q.Policy, q.Effective = "all", map[string]any{"max-length": 5.0} })
	d := listing(t, settings(t), limited...)
	d.policies = []rabbit.Policy{{Name: "other", Priority: 9}, {Name: "all", Priority: 4}}
	d.topology().checkOwnQueues()
	want(t, d.findings, Error, "max-length 5", "--priority 5 ")
}

// The remedies of several policies are one policy, which has to win against all of them.
func TestTheRemedyOfSeveralPolicies(t *testing.T) {
	list := ownQueues()
	list[0].Policy, list[0].Effective = "low", map[string]any{"max-length": 5.0}
	list[1].Policy, list[1].Effective = "high", map[string]any{"max-length": 6.0}
	d := listing(t, settings(t), list...)
	d.policies = []rabbit.Policy{{Name: "low", Priority: 1}, {Name: "high", Priority: 8}}
	d.topology().checkOwnQueues()
	want(t, d.findings, Error, `policy "low" limits`, "--priority 9 ")
	want(t, d.findings, Error, `policy "high" limits`, "--priority 9 ")
}

// Queues with the same limits are one finding, which names the first ten.
func TestLimitedQueuesAreOneFindingForEachPolicy(t *testing.T) {
	list := ownQueues()
	for i := range list {
		list[i].Policy, list[i].Effective = "all", map[string]any{"max-length": 5.0}
	}
	list[0].Policy = "another"
	d := listing(t, settings(t), list...)
	d.topology().checkOwnQueues()
	if len(d.findings) != 2 {
		t.Errorf("%d findings\n%s", len(d.findings), text(d.findings))
	}
	want(t, d.findings, Error, `policy "another"`, "")
	want(t, d.findings, Error, fmt.Sprintf(`policy "all" limits what must not be dropped (max-length 5) in %d queues`, len(list)-1), "")
}

func TestQueuesOfRoutesThatMayDropMessages(t *testing.T) {
	retry := map[string]any{"x-dead-letter-exchange": "anywhere"}
	for name, test := range map[string]struct {
		queue   rabbit.Queue
		version string
		want    string // "": none
	}{
		"the default since 4.0":     {rabbit.Queue{Type: "quorum"}, "4.0.5", "drops a message after 20 deliveries"},
		"the default before":        {rabbit.Queue{Type: "quorum"}, "3.13.7", ""},
		"a classic queue":           {rabbit.Queue{Type: "classic"}, "4.0.5", ""},
		"an argument":               {rabbit.Queue{Type: "quorum", Arguments: map[string]any{"x-delivery-limit": 7.0}}, "4.0.5", "drops a message after 7 deliveries"},
		"a policy":                  {rabbit.Queue{Type: "quorum", Effective: map[string]any{"delivery-limit": 6.0}}, "3.10.0", "drops a message after 6 deliveries"},
		"the lower one":             {rabbit.Queue{Type: "quorum", Arguments: map[string]any{"x-delivery-limit": 7.0}, Effective: map[string]any{"delivery-limit": 6.0}}, "4.0.5", "drops a message after 6 deliveries"},
		"negative is none since 4":  {rabbit.Queue{Type: "quorum", Arguments: map[string]any{"x-delivery-limit": -1.0}}, "4.0.5", ""},
		"negative is zero before":   {rabbit.Queue{Type: "quorum", Arguments: map[string]any{"x-delivery-limit": -1.0}}, "3.13.7", "drops a message after 0 deliveries"},
		"with dead letters":         {rabbit.Queue{Type: "quorum", Arguments: retry}, "4.0.5", ""},
		"dead letters by a policy":  {rabbit.Queue{Type: "quorum", Effective: map[string]any{"dead-letter-exchange": "x"}}, "4.0.5", ""},
		"expiry by a policy":        {rabbit.Queue{Type: "classic", Policy: "all", Effective: map[string]any{"message-ttl": 3000.0, "max-length": 5.0}}, "4.0.5", `drops messages by message-ttl 3000, max-length 5 of policy "all"`},
		"the stricter is a policy":  {rabbit.Queue{Type: "classic", Policy: "all", Arguments: map[string]any{"x-max-length": 7.0}, Effective: map[string]any{"max-length": 5.0}}, "4.0.5", `drops messages by max-length 5 of policy "all"`},
		"an operator policy":        {rabbit.Queue{Type: "classic", OperatorPolicy: "ops", Effective: map[string]any{"max-length-bytes": 5.0}}, "4.0.5", `drops messages by max-length-bytes 5 of operator policy "ops"`},
		"one of two policies":       {rabbit.Queue{Type: "classic", Policy: "all", OperatorPolicy: "ops", Effective: map[string]any{"max-length": 5.0}}, "4.0.5", `drops messages by max-length 5 of policy "all" and operator policy "ops"`},
		"deleted with its messages": {rabbit.Queue{Type: "classic", Policy: "all", Arguments: retry, Effective: map[string]any{"expires": 20000.0}}, "4.0.5", `drops messages by expires 20000 of policy "all"`},
		"expiry with dead letters":  {rabbit.Queue{Type: "classic", Arguments: retry, Effective: map[string]any{"message-ttl": 3000.0, "max-length": 5.0}}, "4.0.5", ""},
		"publishes are rejected":    {rabbit.Queue{Type: "classic", Effective: map[string]any{"overflow": "reject-publish", "max-length": 5.0}}, "4.0.5", ""},
		"the argument wins":         {rabbit.Queue{Type: "classic", Policy: "all", Arguments: map[string]any{"x-overflow": "drop-head"}, Effective: map[string]any{"overflow": "reject-publish", "max-length": 5.0}}, "4.0.5", `drops messages by max-length 5 of policy "all"`},
		"of a quorum queue not":     {rabbit.Queue{Type: "quorum", Policy: "all", Arguments: map[string]any{"x-overflow": "reject-publish", "x-delivery-limit": float64(unlimited)}, Effective: map[string]any{"overflow": "drop-head", "max-length": 5.0}}, "4.0.5", `drops messages by max-length 5 of policy "all"`},
		"a limit that is none":      {rabbit.Queue{Type: "classic", Effective: map[string]any{"max-length": float64(unlimited)}}, "4.0.5", ""},
		"a stream has no consumers": {rabbit.Queue{Type: "stream"}, "4.0.5", "is a stream, whose route would skip"},
	} {
		t.Run(name, func(t *testing.T) {
			test.queue.Name = "orders"
			d := listing(t, settings(t, oneRoute), test.queue)
			d.version = test.version
			d.topology().checkRouteQueues()
			if test.want == "" {
				want(t, d.findings, OK, "1 queue, none of which drops messages", "")
				return
			}
			want(t, d.findings, Error, "queue orders "+test.want, "")
		})
	}
}

// The owner of a queue chose its arguments, so setup does not fail.
func TestQueuesOfRoutesThatWereDeclaredToDropMessages(t *testing.T) {
	s := newSetUpSite(t, strings.Replace(oneRoute, "queue: orders,", "queue: orders, arguments: {x-max-length: 5, x-expires: 600000},", 1))
	want(t, of("routes", Run(t.Context(), s.Config)), Warning, "queue orders drops messages by expires 600000, max-length 5, with which it was declared", "delete it first")
	if list := s.limits(t); len(list) != 0 {
		t.Errorf("setup fails:\n%s", text(list))
	}
}

// The arguments of a queue that exists never change, whatever the configuration says.
func TestArgumentsThatAQueueDoesNotHave(t *testing.T) {
	const declared = "queue: orders, arguments: {x-queue-type: classic, x-max-priority: 5, x-single-active-consumer: true},"
	s := newSetUpSite(t, strings.Replace(oneRoute, "queue: orders,", declared, 1))
	want(t, of("routes", Run(t.Context(), s.Config)), OK, "1 queue, none of which drops messages", "")

	s.Settings.Routes = settings(t, strings.Replace(oneRoute, "queue: orders,", "queue: orders, arguments: {x-queue-type: quorum, x-message-ttl: 60000, x-single-active-consumer: true},", 1)).Routes
	want(t, of("routes", Run(t.Context(), s.Config)), Warning,
		"queue orders was declared with other arguments than those of its route: no x-message-ttl instead of 60000, x-queue-type classic instead of quorum",
		"write those of the queue into routes; or let it run empty, delete it, and run watership setup")
}

func TestPoliciesOfQueuesOfOneRoute(t *testing.T) {
	s := newSite(t, `WATERSHIP_ROUTES=[{queue: orders, park: true, fairness: {key: "{headers.merchant}", ordered: true}, handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	s.savePolicy(t, rabbit.Policy{Name: "all", Pattern: "orders", ApplyTo: "queues", Priority: 3, Definition: map[string]any{"message-ttl": 1000}})
	s.setUp(t)
	list := Run(t.Context(), s.Config)
	want(t, of("topology", list), Error, `policy "all" limits what must not be dropped (message-ttl 1000) in 1 queue: watership.places.orders`, "watership-unlimited")
	want(t, of("routes", list), Error, `queue orders drops messages by message-ttl 1000 of policy "all"`, `--priority 4 --apply-to queues orders-dead-letters '^orders$' '{"dead-letter-exchange":"watership.retry","dead-letter-strategy":"at-least-once","overflow":"reject-publish"}'`)
	want(t, of("routes", list), Warning, `queue orders.poison drops parked copies by message-ttl 1000 of policy "all"`, `leave the queue out by the pattern of policy "all"`)
}

func TestParkedCopiesThatTwoPoliciesLimit(t *testing.T) {
	cfg := settings(t, `WATERSHIP_ROUTES=[{queue: orders, park: true, handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	d := listing(t, cfg, rabbit.Queue{Name: "orders", Type: "classic"},
		rabbit.Queue{Name: "orders.poison", Type: "quorum", Policy: "all", OperatorPolicy: "ops", Effective: map[string]any{"message-ttl": 9.0}})
	d.topology().checkRouteQueues()
	want(t, d.findings, Warning, `queue orders.poison drops parked copies by message-ttl 9 of policy "all" and operator policy "ops"`,
		`leave the queue out by the pattern of policy "all" and operator policy "ops"`)
}

func TestTheRemedyOfADroppingRouteIsAPolicyForItsQueueAlone(t *testing.T) {
	d := listing(t, settings(t, strings.ReplaceAll(oneRoute, "orders", "eu.orders")), rabbit.Queue{Name: "eu.orders", Type: "quorum", Policy: "all"})
	d.policies = []rabbit.Policy{{Name: "all", Priority: 2}}
	const command = `rabbitmqctl set_policy --vhost / --priority 3 --apply-to queues eu.orders-dead-letters '^eu\.orders$' '{"dead-letter-exchange":"watership.retry"`
	d.topology().checkRouteQueues()
	want(t, d.findings, Error, "queue eu.orders drops", command+`,"dead-letter-strategy":"at-least-once","overflow":"reject-publish"}'`)

	// With a limit, overflow would reject what the queue drops; a classic queue has no strategy.
	for _, queue := range []rabbit.Queue{
		{Type: "quorum", Arguments: map[string]any{"x-max-length": 9.0}},
		{Type: "quorum", OperatorPolicy: "ops", Effective: map[string]any{"max-length": 9.0}},
		{Type: "classic", Effective: map[string]any{"max-length": 9.0}},
	} {
		queue.Name, queue.Policy = "eu.orders", "all"
		d.findings, d.queues[queue.Name] = nil, queue
		d.topology().checkRouteQueues()
		want(t, d.findings, Error, "queue eu.orders drops", command+"}'")
	}
}

func TestWithoutRoutesNothingIsSaidOfThem(t *testing.T) {
	d := listing(t, settings(t))
	d.topology().checkRouteQueues()
	if len(d.findings) != 0 {
		t.Error(text(d.findings))
	}
}

// A route without a handler is for the queue of another program.
func TestQueuesOfOtherPrograms(t *testing.T) {
	for name, test := range map[string]struct {
		queues         []rabbit.Queue
		detail, remedy string
	}{
		"missing":             {nil, "is missing, which the program that consumes it declares", "start that program"},
		"without dead letter": {[]rabbit.Queue{{Name: "invoices"}}, "has no dead-letter exchange", "or add it: watership routes add invoices"},
		"a stream":            {[]rabbit.Queue{{Name: "invoices", Type: "stream"}}, "is a stream, which has no dead letters", "name a queue of another type"},
		"elsewhere": {
			[]rabbit.Queue{{Name: "invoices", Arguments: map[string]any{"x-dead-letter-exchange": "dlx"}}},
			"has the dead-letter exchange dlx", "give it the dead-letter exchange watership.retry",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := listing(t, settings(t, "WATERSHIP_ROUTES=[{queue: invoices}]"), test.queues...)
			d.topology().checkRouteQueues()
			want(t, d.findings, Warning, "queue invoices "+test.detail, test.remedy)
		})
	}
}

func TestAQueueOfAnotherProgramWhoseDeadLettersArriveIsFine(t *testing.T) {
	d := listing(t, settings(t, "WATERSHIP_ROUTES=[{queue: invoices}]"),
		rabbit.Queue{Name: "invoices", Type: "quorum", Effective: map[string]any{"dead-letter-exchange": "watership.retry"}})
	d.topology().checkRouteQueues()
	want(t, d.findings, OK, "1 queue", "")
}

func TestFindingsNameTheFirstOfManyQueues(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "a", 2: "a, b", 3: "a, b and 1 more", 5: "a, b and 3 more"} {
		if got := firstOf(2, strings.Split("abcde", "")[:n]); got != want {
			t.Errorf("%d names: %q, want %q", n, got, want)
		}
	}
}
