package doctor

import (
	"maps"
	"slices"

	"github.com/watershipmq/watership/internal/rabbit"
)

// applyPolicies gives each queue the policies that are for it, where RabbitMQ does not tell them yet: it
// applies them to one queue after the other and tells of it some seconds later, while setup asks just
// after queues are declared, or policies saved.
func (b *broker) applyPolicies(operators []rabbit.Policy) {
	for name, queue := range b.queues {
		users, operator := policyFor(queue, b.policies), policyFor(queue, operators)
		known := queue.Effective != nil && (queue.Policy != "" || queue.OperatorPolicy != "")
		if known && !outdated(queue, queue.Policy, users, b.policies) && !outdated(queue, queue.OperatorPolicy, operator, operators) {
			continue
		}
		queue.Policy, queue.OperatorPolicy = users.Name, operator.Name
		queue.Effective = effective(users.Definition, operator.Definition)
		b.queues[name] = queue
	}
}

// outdated reports whether RabbitMQ tells a policy of a queue that is not the one for it any more. A
// policy whose pattern only RabbitMQ can read, or that is not in the list, is never outdated.
func outdated(queue rabbit.Queue, told string, best rabbit.Policy, policies []rabbit.Policy) bool {
	if told == "" {
		return best.Name != ""
	}
	at := slices.IndexFunc(policies, func(p rabbit.Policy) bool { return p.Name == told })
	if at < 0 {
		return false
	}
	applies, err := policies[at].AppliesTo(queue.Name, queue.Type)
	return err == nil && (!applies || best.Priority > policies[at].Priority)
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
