package doctor

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/operate/doctor/commandline"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/wire"
)

// ownQueues returns the names of Watership's queues, and which of them are delay queues.
func (b *broker) ownQueues() (all []string, delays map[string]bool) {
	all = b.Topology.Queues()
	for _, route := range b.Settings.Routes {
		if route.Fairness.Ordered {
			all = append(all, b.Topology.Places(route.Queue))
		}
	}
	delays = map[string]bool{}
	for _, delay := range b.Pipeline.Delays() {
		name := wire.DelaysOf(b.Topology).Queue(delay)
		if !delays[name] {
			all = append(all, name)
		}
		delays[name] = true
	}
	for name := range b.queues {
		if wire.DelaysOf(b.Topology).Has(name) && !delays[name] {
			all = append(all, name) // made when a handler asked for it
			delays[name] = true
		}
	}
	return all, delays
}

// typeOf returns the type of a queue of Watership.
func (b *broker) typeOf(queue string) string {
	if b.Topology.ClassicIndex && queue != b.Topology.Log() && slices.Contains(b.Topology.Indexed(), queue) {
		return "classic"
	}
	return b.Settings.Topology.QueueType
}

// checkOwnQueues looks for queues of Watership that are missing, have another type, or
// are limited by a policy for other queues.
func (t topologyChecks) checkOwnQueues() {
	problems := len(t.findings)
	all, _ := t.ownQueues()
	var missing []string
	limited := map[queueLimits][]string{}
	leaking := map[string][]string{}   // by policy
	others := map[[2]string][]string{} // of other types, by the type that they have and the one that is set
	for _, name := range all {
		queue, there := t.queues[name]
		switch {
		case !there:
			missing = append(missing, name)
		case queue.Type != t.typeOf(name):
			types := [2]string{queue.Type, t.typeOf(name)}
			others[types] = append(others[types], name)
		default:
			if by := t.limitsOf(queue); by != (queueLimits{}) {
				limited[by] = append(limited[by], name)
			}
			if t.leaks(queue) {
				leaking[queue.Policy] = append(leaking[queue.Policy], name)
			}
		}
	}
	for types, names := range others {
		t.reportWith(commandline.New("setup").With("retire", prefixOf(t.Topology.Log())), QueueTypeDiffers, Error, fmt.Sprintf("of type %s, while the configuration says %s: %s", types[0], types[1], firstOf(maxNames, names)),
			"a queue's type never changes: set topology.queue_type to it; or stop every process, delete those that are empty, and run watership setup; or choose another topology.prefix, and move what waits")
	}
	t.reportLimited(limited)
	t.reportLeaking(leaking)
	t.checkAvailability(all)
	if len(missing) > 0 {
		t.report(QueueMissing, Error, "missing: "+firstOf(maxNames, missing), "run watership setup")
	}
	if len(t.findings) == problems {
		t.reportOK(TopologyCheck, "%s are there and unlimited", wording.Plural(len(all), "queue"))
	}
}

// checkAvailability looks for queues of Watership and of routes that serve nothing:
// publishers get no confirms from an exchange that such a queue is bound to.
func (t topologyChecks) checkAvailability(all []string) {
	for _, route := range t.Settings.Routes {
		all = append(all, route.Queue)
	}
	for _, name := range all {
		if queue := t.queues[name]; !queue.Available() {
			t.report(QueueDown, Error, fmt.Sprintf("queue %s is %s", name, queue.State),
				"bring back the nodes of the queue, and see the log of RabbitMQ for why it ended")
		}
	}
}

// queueLimits holds the policies that limit a queue, the limits, and the remedy.
type queueLimits struct{ policies, limits, remedy string }

// reportLimited reports the limited queues, one finding for each remedy.
func (t topologyChecks) reportLimited(limited map[queueLimits][]string) {
	byName := func(a, b queueLimits) int { return strings.Compare(limited[a][0], limited[b][0]) }
	for _, by := range slices.SortedFunc(maps.Keys(limited), byName) {
		t.report(QueueLimited, Error, fmt.Sprintf("%s limits what must not be dropped (%s) in %s: %s",
			by.policies, by.limits, wording.Plural(len(limited[by]), "queue"), firstOf(maxNames, limited[by])), by.remedy)
	}
}

// limitsOf returns the limits of a queue; the zero value if it has none.
func (b *broker) limitsOf(queue rabbit.Queue) queueLimits {
	var limits []string
	for _, key := range slices.Sorted(maps.Keys(queue.Effective)) {
		switch key {
		case "delivery-limit", "max-length", "max-length-bytes", "message-ttl", "expires", "overflow":
			if n, isNumber := integer(queue.Effective[key]); !isNumber || n < unlimited {
				limits = append(limits, key+" "+rabbit.SettingText(queue.Effective[key]))
			}
		}
	}
	if len(limits) == 0 {
		return queueLimits{}
	}
	remedy := b.unlimitedPolicy()
	if queue.OperatorPolicy != "" {
		remedy = fmt.Sprintf("narrow the pattern of operator policy %q so that it leaves out %s.*", queue.OperatorPolicy, prefixOf(b.Topology.Log()))
	}
	return queueLimits{policiesOf(queue), strings.Join(limits, ", "), remedy}
}

// policiesOf names the policy and the operator policy of a queue that has one of them.
func policiesOf(queue rabbit.Queue) string {
	var names []string
	if queue.Policy != "" {
		names = append(names, fmt.Sprintf("policy %q", queue.Policy))
	}
	if queue.OperatorPolicy != "" {
		names = append(names, fmt.Sprintf("operator policy %q", queue.OperatorPolicy))
	}
	return strings.Join(names, " and ")
}

// unlimitedPolicy returns the command for a policy that wins against the policies of all queues of Watership,
// and limits nothing. Queues of every type support its setting.
func (b *broker) unlimitedPolicy() string {
	highest := 0
	own, _ := b.ownQueues()
	for _, name := range own {
		highest = max(highest, b.policyPriority(b.queues[name].Policy))
	}
	return fmt.Sprintf(`rabbitmqctl set_policy --vhost %s --priority %d --apply-to queues watership-unlimited %s '{"max-length":%d}'`,
		wording.Quoted(b.VHost), highest+1, wording.Quoted("^"+regexp.QuoteMeta(prefixOf(b.Topology.Log()))+`\.`), unlimited)
}

// leaks reports whether a policy gives a dead-letter exchange to a queue that drops messages on purpose:
// what processes ask about pauses, and the oldest copies if tap.when_full is drop_oldest.
func (b *broker) leaks(queue rabbit.Queue) bool {
	drops := queue.Name == b.Topology.Paused() || queue.Name == b.Topology.IndexLate() && b.Topology.IndexLimit > 0
	_, declared := queue.Arguments["x-dead-letter-exchange"]
	return drops && !declared && hasDeadLetters(queue)
}

// reportLeaking reports queues whose dropped messages go to the dead-letter exchange of a policy.
func (t topologyChecks) reportLeaking(leaking map[string][]string) {
	for _, policy := range slices.Sorted(maps.Keys(leaking)) {
		exchange, _ := t.queues[leaking[policy][0]].DeadLetterExchange()
		t.report(DropsDeadLettered, Error, fmt.Sprintf("policy %q sends what Watership drops on purpose to the dead-letter exchange %q, and so to services: %s",
			policy, exchange, firstOf(maxNames, leaking[policy])), t.unlimitedPolicy())
	}
}

// unlimited is the highest delivery limit. Every version of RabbitMQ treats it as none.
const unlimited = math.MaxInt32

func integer(value any) (int64, bool) {
	n, ok := value.(float64) // as JSON has it
	return int64(n), ok
}

// prefixOf returns the name of a queue without its last word.
func prefixOf(name string) string { return name[:strings.LastIndex(name, ".")] }

func (b *broker) policyPriority(policy string) int {
	for _, p := range b.policies {
		if p.Name == policy {
			return p.Priority
		}
	}
	return 0
}

// checkRouteQueues looks for queues of routes that drop messages: by a limit, or after a number of
// deliveries. A crash of serve while it handles a message counts as a delivery.
func (t topologyChecks) checkRouteQueues() {
	problems := len(t.findings)
	for _, route := range t.Settings.Routes {
		queue, there := t.queues[route.Queue]
		if !route.HasHandler() {
			t.checkForeignQueue(route.Queue, queue, there)
			continue
		}
		if !there {
			t.report(RouteQueueMissing, Error, "queue "+route.Queue+" is missing", "run watership setup")
			continue
		}
		if queue.Type == stream {
			t.report(RouteQueueIsStream, Error, fmt.Sprintf("queue %s is a stream, whose route would skip what is published while it does not run", route.Queue),
				"bind a queue of type quorum to the same exchange, and name it in the route")
			continue
		}
		if limit := t.deliveryLimit(queue); limit < unlimited && !hasDeadLetters(queue) {
			t.report(QueueDropsAfterDeliveries, Error, fmt.Sprintf("queue %s drops a message after %d deliveries, and has no dead-letter exchange", route.Queue, limit),
				t.deadLetterPolicy(queue))
		}
		if differences := argumentDifferences(route.Arguments, queue); len(differences) > 0 {
			t.report(RouteArgumentsDiffer, Warning, fmt.Sprintf("queue %s was declared with other arguments than those of its route: %s", route.Queue, strings.Join(differences, ", ")),
				"a queue's arguments never change: write those of the queue into routes; or let it run empty, delete it, and run watership setup")
		}
		dropCheck{t, queue}.ofMessages()
		if parking, there := t.queues[t.Topology.Parking(route.Queue)]; there && route.Park {
			dropCheck{t, parking}.ofParkedCopies()
		}
	}
	if len(t.findings) == problems && len(t.Settings.Routes) > 0 {
		t.reportOK(RoutesCheck, "%s, none of which drops messages", wording.Plural(len(t.Settings.Routes), "queue"))
	}
}

// checkForeignQueue looks for a queue of a route without a handler whose dead letters do
// not reach Watership. Another program declares it, perhaps after setup.
func (t topologyChecks) checkForeignQueue(name string, queue rabbit.Queue, there bool) {
	exchange, has := queue.DeadLetterExchange()
	var code Code
	var problem string
	var command *commandline.Command
	remedy := "give it the dead-letter exchange " + t.Topology.Retry()
	switch {
	case !there:
		code = RouteQueueMissing
		problem = "is missing, which the program that consumes it declares"
		remedy = "start that program, and let it declare the queue with the dead-letter exchange " + t.Topology.Retry()
	case queue.Type == stream:
		code, problem, remedy = RouteQueueIsStream, "is a stream, which has no dead letters", "name a queue of another type"
	case !has:
		code = DeadLettersGoNowhere
		problem = "has no dead-letter exchange, so that its messages are not retried"
		remedy, command = "add it", commandline.New("routes add", name)
	case exchange != t.Topology.Retry():
		code = DeadLettersGoElsewhere
		problem = fmt.Sprintf("has the dead-letter exchange %s, so that Watership does not retry its messages", exchange)
	default:
		return
	}
	t.reportWith(command, code, Warning, fmt.Sprintf("queue %s %s", name, problem), "take it out of routes, or "+remedy)
}

// stream is the type of a queue that keeps its messages, and has no dead letters.
const stream = "stream"

// deliveryLimit returns the lower limit of argument and policy; the default of quorum
// queues is 20 since RabbitMQ 4.0. A negative limit means no limit there, and zero on 3.x.
func (b *broker) deliveryLimit(queue rabbit.Queue) int64 {
	if queue.Type != "quorum" {
		return unlimited
	}
	limit, given := int64(unlimited), false
	for _, value := range []any{queue.Arguments["x-delivery-limit"], queue.Effective["delivery-limit"]} {
		if n, is := integer(value); is {
			given, limit = true, min(limit, n)
		}
	}
	switch recent := !isOlder(b.version, "4.0"); {
	case !given && recent:
		return 20
	case limit < 0 && recent:
		return unlimited
	}
	return max(0, limit)
}

func hasDeadLetters(queue rabbit.Queue) bool {
	_, found := queue.DeadLetterExchange()
	return found
}

// maxNames is the number of names in a finding.
const maxNames = 10

// firstOf lists the first of many names, and the number of the others.
func firstOf(most int, names []string) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
