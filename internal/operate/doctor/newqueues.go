package doctor

import (
	"maps"

	"github.com/watershipmq/watership/internal/rabbit"
)

// applyPolicies gives each queue without a policy those that are for it: setup asks for them just after
// it has declared queues, and RabbitMQ applies and tells them some seconds later.
func (b *broker) applyPolicies(operators []rabbit.Policy) {
	for name, queue := range b.queues {
		if queue.Effective != nil && (queue.Policy != "" || queue.OperatorPolicy != "") {
			continue
		}
		users, operator := policyFor(queue, b.policies), policyFor(queue, operators)
		queue.Policy, queue.OperatorPolicy = users.Name, operator.Name
		queue.Effective = effective(users.Definition, operator.Definition)
		b.queues[name] = queue
	}
}

// policyFor returns the policy with the highest priority that is for a queue; the zero value for none. A
// pattern that only RabbitMQ can read is for none, until RabbitMQ tells.
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
