package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
)

// ours names every queue of ours, and which of them are delay queues.
func (d *doctor) ours() (all []string, delays map[string]bool) {
	topology := d.pipeline().TopologyConfig()
	all = d.topology.Queues()
	delays = map[string]bool{}
	for _, delay := range topology.Delays {
		name := d.topology.Delay(delay)
		if !delays[name] {
			all = append(all, name)
		}
		delays[name] = true
	}
	for name := range d.queues {
		if strings.HasPrefix(name, strings.TrimSuffix(d.topology.Delay(0), "0")) && !delays[name] {
			all = append(all, name) // made when a handler asked for it
			delays[name] = true
		}
	}
	return all, delays
}

// checkOurQueues looks for queues that are missing, of another type, or limited
// by a policy that was meant for others.
func (d *doctor) checkOurQueues() {
	problems := len(d.findings)
	all, _ := d.ours()
	var missing []string
	for _, name := range all {
		queue, there := d.queues[name]
		switch {
		case !there:
			missing = append(missing, name)
		case queue.Type != d.cfg.Topology.QueueType:
			d.say("topology", wrong, fmt.Sprintf("queue %s is of type %s, topology.queue_type says %s", name, queue.Type, d.cfg.Topology.QueueType),
				"a queue's type never changes: set topology.queue_type to it, or choose another topology.prefix")
		default:
			d.checkLimits(queue)
		}
	}
	if len(missing) > 0 {
		d.say("topology", wrong, "missing: "+few(missing), "run watership setup")
	}
	if len(d.findings) == problems {
		d.fine("topology", "%s are there and unlimited", plural(len(all), "queue"))
	}
}

// checkLimits names what a policy takes from a queue of ours.
func (d *doctor) checkLimits(queue rabbit.Queue) {
	var limits []string
	for _, key := range slices.Sorted(maps.Keys(queue.Effective)) {
		switch key {
		case "delivery-limit", "max-length", "max-length-bytes", "message-ttl", "expires", "overflow":
			if n, isNumber := number(queue.Effective[key]); !isNumber || n < unlimited {
				limits = append(limits, fmt.Sprintf("%s %v", key, queue.Effective[key]))
			}
		}
	}
	if len(limits) == 0 {
		return
	}
	who := fmt.Sprintf("policy %q", queue.Policy)
	remedy := fmt.Sprintf(`rabbitmqctl set_policy --vhost '%s' --priority %d --apply-to queues watership-unlimited '^%s\.' '{"delivery-limit":%d}'`,
		d.vhost, d.priority(queue.Policy)+1, prefixOf(d.topology.Log()), unlimited)
	if queue.OperatorPolicy != "" {
		who += fmt.Sprintf(" and operator policy %q", queue.OperatorPolicy)
		remedy = fmt.Sprintf("narrow the pattern of operator policy %q so that it leaves out %s.*", queue.OperatorPolicy, prefixOf(d.topology.Log()))
	}
	if queue.Policy == "" {
		who = fmt.Sprintf("operator policy %q", queue.OperatorPolicy)
	}
	d.say("topology", wrong, fmt.Sprintf("%s limits queue %s, whose messages must not be dropped: %s", who, queue.Name, strings.Join(limits, ", ")), remedy)
}

// unlimited is the highest delivery limit, which every version takes for none.
const unlimited = math.MaxInt32

func number(value any) (int64, bool) {
	n, ok := value.(float64) // as JSON has it
	return int64(n), ok
}

// prefixOf a queue of ours that has one word behind it.
func prefixOf(name string) string { return name[:strings.LastIndex(name, ".")] }

func (d *doctor) priority(policy string) int {
	for _, p := range d.policies {
		if p.Name == policy {
			return p.Priority
		}
	}
	return 0
}

// checkRouteQueues looks for queues of routes that drop what they delivered too
// often. A crash while a message is handled is a delivery.
func (d *doctor) checkRouteQueues() {
	problems := len(d.findings)
	for _, route := range d.cfg.Routes {
		queue, there := d.queues[route.Queue]
		if !there {
			d.say("routes", wrong, "queue "+route.Queue+" is missing", "run watership setup")
			continue
		}
		limit := d.deliveryLimit(queue)
		if limit >= unlimited || hasDeadLetters(queue) {
			continue
		}
		d.say("routes", wrong, fmt.Sprintf("queue %s drops a message after %d deliveries, and has no dead-letter exchange", route.Queue, limit),
			fmt.Sprintf(`rabbitmqctl set_policy --vhost '%s' --priority %d --apply-to queues %s-dead-letters '^%s$' '{"dead-letter-exchange":"%s"}'`,
				d.vhost, d.priority(queue.Policy)+1, route.Queue, route.Queue, d.topology.Retry()))
	}
	if len(d.findings) == problems && len(d.cfg.Routes) > 0 {
		d.fine("routes", "%s, none of which drops messages", plural(len(d.cfg.Routes), "queue"))
	}
}

// deliveryLimit is the lower of argument and policy; quorum queues have one of
// 20 by default since 4.0. Below zero is none there, and zero on 3.x.
func (d *doctor) deliveryLimit(queue rabbit.Queue) int64 {
	if queue.Type != "quorum" {
		return unlimited
	}
	limit, given := int64(unlimited), false
	for _, value := range []any{queue.Arguments["x-delivery-limit"], queue.Effective["delivery-limit"]} {
		if n, is := number(value); is {
			given, limit = true, min(limit, n)
		}
	}
	switch recent := !older(d.version, "4.0"); {
	case !given && recent:
		return 20
	case limit < 0 && recent:
		return unlimited
	}
	return max(0, limit)
}

func hasDeadLetters(queue rabbit.Queue) bool {
	_, found := deadLetterExchange(queue)
	return found
}

func deadLetterExchange(queue rabbit.Queue) (string, bool) {
	for _, value := range []any{queue.Arguments["x-dead-letter-exchange"], queue.Effective["dead-letter-exchange"]} {
		if name, is := value.(string); is {
			return name, true
		}
	}
	return "", false
}

// few lists some of many names.
func few(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// checkDelays looks for delay queues whose messages have waited and cannot go on.
func (d *doctor) checkDelays(ctx context.Context) {
	stuck, err := d.stuck(ctx)
	if err != nil {
		d.say("delays", warning, err.Error(), "")
		return
	}
	if len(stuck) > 0 {
		d.say("delays", wrong, "messages have waited long enough and do not get to "+d.topology.Due()+" from "+few(stuck),
			"see whether "+d.topology.Due()+" is there and takes messages (watership setup declares it), and the log of RabbitMQ")
		return
	}
	_, delays := d.ours()
	d.fine("delays", "%s, none of which is stuck", plural(len(delays), "delay queue"))
}

const stuckPause = time.Second

// stuck looks twice: a message that is on its way for a moment is not stuck.
func (d *doctor) stuck(ctx context.Context) ([]string, error) {
	_, delays := d.ours()
	first, err := d.management.DeadLettering(ctx, d.vhost)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(first, func(name string, _ int64) bool { return !delays[name] })
	if len(first) == 0 {
		return nil, nil
	}
	select {
	case <-time.After(stuckPause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	second, err := d.management.DeadLettering(ctx, d.vhost)
	var stuck []string
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if second[name] >= first[name] && d.dueIsIdle() {
			stuck = append(stuck, name)
		}
	}
	return stuck, err
}

// dueIsIdle: while messages come out, those behind them are not stuck.
func (d *doctor) dueIsIdle() bool {
	due, there := d.queues[d.topology.Due()]
	return !there || due.Messages == 0 || due.Consumers == 0
}

const muchLag = 10_000 // messages

func (d *doctor) checkLag() {
	for _, queue := range []struct{ name, remedy string }{
		{d.topology.Index(), "run watership serve, or see in its log why it does not keep up with the traffic"},
		{d.topology.IndexLate(), "run watership serve, or see in its log why it does not keep up with the traffic"},
		{d.topology.Log(), "run watership serve, or see in its log why it does not keep up with the events"},
		{d.topology.Due(), "run watership serve: nothing takes what is to be tried again"},
		{d.topology.Retry(), "run watership serve: nothing takes the dead letters"},
		{d.topology.Poison(), "run watership serve: nothing records what was given up"},
	} {
		found, there := d.queues[queue.name]
		switch {
		case !there:
		case d.topology.IndexLimit > 0 && found.Messages >= d.topology.IndexLimit && slices.Contains([]string{d.topology.Index(), d.topology.IndexLate()}, queue.name):
			d.say("lag", warning, fmt.Sprintf("%s is full with %s: its oldest are dropped", queue.name, plural(int(found.Messages), "message")), queue.remedy)
		case found.Messages > muchLag:
			d.say("lag", warning, fmt.Sprintf("%s has %s", queue.name, plural(int(found.Messages), "message")), queue.remedy)
		case found.Messages > 0 && found.Consumers == 0:
			d.say("lag", warning, fmt.Sprintf("%s has %s and no consumer", queue.name, plural(int(found.Messages), "message")), queue.remedy)
		default:
			d.fine("lag", "%s has %s", queue.name, plural(int(found.Messages), "message"))
		}
	}
}
