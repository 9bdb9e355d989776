package doctor

import (
	"maps"
	"slices"

	"github.com/watershipmq/watership/internal/rabbit"
)

// applyPolicies gives each queue the policies that it has, or gets within seconds: RabbitMQ applies a
// policy to one queue after the other and lists it later, while setup asks just after queues are
// declared, or policies changed. The policies were listed after the queues.
func (b *broker) applyPolicies(operators []rabbit.Policy) {
	for name, queue := range b.queues {
		users, operator := current(queue, queue.Policy, b.policies), current(queue, queue.OperatorPolicy, operators)
		queue.Policy, queue.OperatorPolicy = users.Name, operator.Name
		queue.Effective = effective(users.Definition, operator.Definition)
		b.queues[name] = queue
	}
}

// current returns the policy of a queue: the one that RabbitMQ lists, unless it is removed, is not for the
// queue any more, or has a lower priority than another one that is. Of a pattern that only RabbitMQ can
// read it is believed.
func current(queue rabbit.Queue, told string, policies []rabbit.Policy) rabbit.Policy {
	best := policyFor(queue, policies)
	at := slices.IndexFunc(policies, func(p rabbit.Policy) bool { return p.Name == told })
	if at < 0 {
		return best
	}
	applies, err := policies[at].AppliesTo(queue.Name, queue.Type)
	if err != nil || applies && policies[at].Priority >= best.Priority {
		return policies[at]
	}
	return best
}

// policyFor returns the policy with the highest priority that is for a queue; the zero value for none. A
// pattern that only RabbitMQ can read is for no queue, until RabbitMQ lists it.
func policyFor(queue rabbit.Queue, policies []rabbit.Policy) (best rabbit.Policy) {
	for _, p := range policies {
		if applies, err := p.AppliesTo(queue.Name, queue.Type); err == nil && applies && (best.Name == "" || p.Priority > best.Priority) {
			best = p
		}
	}
	return best
}

// effective returns the settings of a policy and an operator policy: the lower of two numbers applies.
func effective(users, operator map[string]any) map[string]any {
	both := maps.Clone(users)
	if both == nil {
		both = map[string]any{}
	}
	for key, value := range operator {
		limit, isNumber := integer(value)
		if other, has := integer(both[key]); !has || isNumber && limit < other {
			both[key] = value
		}
	}
	return both
}
