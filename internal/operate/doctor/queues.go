package doctor

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
)

// ownQueues returns the names of Watership's queues, and which of them are delay queues.
func (d *doctor) ownQueues() (all []string, delays map[string]bool) {
	all = d.Topology.Queues()
	delays = map[string]bool{}
	for _, delay := range d.Pipeline.Delays() {
		name := d.Topology.Delay(delay)
		if !delays[name] {
			all = append(all, name)
		}
		delays[name] = true
	}
	for name := range d.queues {
		if d.Topology.IsDelay(name) && !delays[name] {
			all = append(all, name) // made when a handler asked for it
			delays[name] = true
		}
	}
	return all, delays
}

// typeOf returns the type of a queue of Watership.
func (d *doctor) typeOf(queue string) string {
	if d.Topology.ClassicIndex && (queue == d.Topology.Index() || queue == d.Topology.IndexLate()) {
		return "classic"
	}
	return d.Settings.Topology.QueueType
}

// checkOwnQueues looks for queues of Watership that are missing, have another type, or
// are limited by a policy for other queues.
func (d *doctor) checkOwnQueues() {
	problems := len(d.findings)
	all, _ := d.ownQueues()
	var missing []string
	limited := map[queueLimits][]string{}
	others := map[[2]string][]string{} // of other types, by the type that they have and the one that is set
	for _, name := range all {
		queue, there := d.queues[name]
		switch {
		case !there:
			missing = append(missing, name)
		case queue.Type != d.typeOf(name):
			types := [2]string{queue.Type, d.typeOf(name)}
			others[types] = append(others[types], name)
		default:
			if by := d.limitsOf(queue); by != (queueLimits{}) {
				limited[by] = append(limited[by], name)
			}
		}
	}
	for types, names := range others {
		d.report("topology", Error, fmt.Sprintf("of type %s, while the configuration says %s: %s", types[0], types[1], firstOf(maxNames, names)),
			"a queue's type never changes: set topology.queue_type to it; or stop every process, delete those that are empty, and run watership setup; or choose another topology.prefix, and run watership setup --retire "+prefixOf(d.Topology.Log())+", which moves what waits")
	}
	d.reportLimited(limited)
	d.checkAvailability(all)
	if len(missing) > 0 {
		d.report("topology", Error, "missing: "+firstOf(maxNames, missing), "run watership setup")
	}
	if len(d.findings) == problems {
		d.reportOK("topology", "%s are there and unlimited", wording.Plural(len(all), "queue"))
	}
}

// checkAvailability looks for queues of Watership and of routes that serve nothing:
// publishers get no confirms from an exchange that such a queue is bound to.
func (d *doctor) checkAvailability(all []string) {
	for _, route := range d.Settings.Routes {
		all = append(all, route.Queue)
	}
	for _, name := range all {
		if queue := d.queues[name]; !queue.Available() {
			d.report("topology", Error, fmt.Sprintf("queue %s is %s", name, queue.State),
				"bring back the nodes of the queue, and see the log of RabbitMQ for why it ended")
		}
	}
}

// queueLimits holds the policies that limit a queue, the limits, and the remedy.
type queueLimits struct{ policies, limits, remedy string }

// reportLimited reports the limited queues, one finding for each remedy.
func (d *doctor) reportLimited(limited map[queueLimits][]string) {
	byName := func(a, b queueLimits) int { return strings.Compare(limited[a][0], limited[b][0]) }
	for _, by := range slices.SortedFunc(maps.Keys(limited), byName) {
		d.report("topology", Error, fmt.Sprintf("%s limits what must not be dropped (%s) in %s: %s",
			by.policies, by.limits, wording.Plural(len(limited[by]), "queue"), firstOf(maxNames, limited[by])), by.remedy)
	}
}

// limitsOf returns the limits of a queue; the zero value if it has none.
func (d *doctor) limitsOf(queue rabbit.Queue) queueLimits {
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
	policies := fmt.Sprintf("policy %q", queue.Policy)
	remedy := fmt.Sprintf(`rabbitmqctl set_policy --vhost %s --priority %d --apply-to queues watership-unlimited %s '{"delivery-limit":%d}'`,
		wording.Quoted(d.VHost), d.policyPriority(queue.Policy)+1, wording.Quoted("^"+regexp.QuoteMeta(prefixOf(d.Topology.Log()))+`\.`), unlimited)
	if queue.OperatorPolicy != "" {
		policies += fmt.Sprintf(" and operator policy %q", queue.OperatorPolicy)
		remedy = fmt.Sprintf("narrow the pattern of operator policy %q so that it leaves out %s.*", queue.OperatorPolicy, prefixOf(d.Topology.Log()))
	}
	if queue.Policy == "" {
		policies = fmt.Sprintf("operator policy %q", queue.OperatorPolicy)
	}
	return queueLimits{policies, strings.Join(limits, ", "), remedy}
}

// unlimited is the highest delivery limit. Every version of RabbitMQ treats it as none.
const unlimited = math.MaxInt32

func integer(value any) (int64, bool) {
	n, ok := value.(float64) // as JSON has it
	return int64(n), ok
}

// prefixOf returns the name of a queue without its last word.
func prefixOf(name string) string { return name[:strings.LastIndex(name, ".")] }

func (d *doctor) policyPriority(policy string) int {
	for _, p := range d.policies {
		if p.Name == policy {
			return p.Priority
		}
	}
	return 0
}

// checkRouteQueues looks for queues of routes that drop messages after a number of
// deliveries. A crash of serve while it handles a message counts as a delivery.
func (d *doctor) checkRouteQueues() {
	problems := len(d.findings)
	for _, route := range d.Settings.Routes {
		queue, there := d.queues[route.Queue]
		if !route.HasHandler() {
			d.checkForeignQueue(route.Queue, queue, there)
			continue
		}
		if !there {
			d.report("routes", Error, "queue "+route.Queue+" is missing", "run watership setup")
			continue
		}
		if queue.Type == stream {
			d.report("routes", Error, fmt.Sprintf("queue %s is a stream, whose route would skip what is published while it does not run", route.Queue),
				"bind a queue of type quorum to the same exchange, and name it in the route")
			continue
		}
		limit := d.deliveryLimit(queue)
		if limit >= unlimited || hasDeadLetters(queue) {
			continue
		}
		d.report("routes", Error, fmt.Sprintf("queue %s drops a message after %d deliveries, and has no dead-letter exchange", route.Queue, limit),
			fmt.Sprintf(`rabbitmqctl set_policy --vhost %s --priority %d --apply-to queues %s %s '{"dead-letter-exchange":"%s"}'`,
				wording.Quoted(d.VHost), d.policyPriority(queue.Policy)+1, wording.Quoted(route.Queue+"-dead-letters"),
				wording.Quoted("^"+regexp.QuoteMeta(route.Queue)+"$"), d.Topology.Retry()))
	}
	if len(d.findings) == problems && len(d.Settings.Routes) > 0 {
		d.reportOK("routes", "%s, none of which drops messages", wording.Plural(len(d.Settings.Routes), "queue"))
	}
}

// checkForeignQueue looks for a queue of a route without a handler whose dead letters do
// not reach Watership. Another program declares it, perhaps after setup.
func (d *doctor) checkForeignQueue(name string, queue rabbit.Queue, there bool) {
	exchange, has := queue.DeadLetterExchange()
	var problem string
	remedy := "give it the dead-letter exchange " + d.Topology.Retry()
	switch {
	case !there:
		problem = "is missing, which the program that consumes it declares"
		remedy = "start that program, and let it declare the queue with the dead-letter exchange " + d.Topology.Retry()
	case queue.Type == stream:
		problem, remedy = "is a stream, which has no dead letters", "name a queue of another type"
	case !has:
		problem = "has no dead-letter exchange, so that its messages are not retried"
		remedy = "run watership routes add " + wording.Quoted(name)
	case exchange != d.Topology.Retry():
		problem = fmt.Sprintf("has the dead-letter exchange %s, so that Watership does not retry its messages", exchange)
	default:
		return
	}
	d.report("routes", Warning, fmt.Sprintf("queue %s %s", name, problem), remedy+", or take it out of routes")
}

// stream is the type of a queue that keeps its messages, and has no dead letters.
const stream = "stream"

// deliveryLimit returns the lower limit of argument and policy; the default of quorum
// queues is 20 since RabbitMQ 4.0. A negative limit means no limit there, and zero on 3.x.
func (d *doctor) deliveryLimit(queue rabbit.Queue) int64 {
	if queue.Type != "quorum" {
		return unlimited
	}
	limit, given := int64(unlimited), false
	for _, value := range []any{queue.Arguments["x-delivery-limit"], queue.Effective["delivery-limit"]} {
		if n, is := integer(value); is {
			given, limit = true, min(limit, n)
		}
	}
	switch recent := !isOlder(d.version, "4.0"); {
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
