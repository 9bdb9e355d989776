package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/schemas"
)

// Roles returns the presence of each role of Watership in a vhost.
func Roles(ctx context.Context, management *rabbit.Management, vhost string, topology schemas.Topology) ([]role.Presence, error) {
	consumers, err := management.Consumers(ctx, vhost)
	if err != nil {
		return nil, err
	}
	tags := map[string][]string{}
	for _, c := range consumers {
		tags[c.Queue.Name] = append(tags[c.Queue.Name], c.Tag)
	}
	return role.Survey(topology, tags), nil
}

// checkRoles reports the processes of each role.
func (t topologyChecks) checkRoles(ctx context.Context) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	roles, err := Roles(ctx, t.management, t.VHost, t.Topology)
	if err != nil {
		t.report(RolesUnknown, Warning, err.Error(), "")
		return
	}
	for _, p := range roles {
		p.Unconsumed = slices.DeleteFunc(p.Unconsumed, func(queue string) bool { return t.hasConsumer(ctx, queue) })
		t.reportRole(p)
	}
}

// hasConsumer asks the queue itself: the consumers that the management API lists are up to 5 s old
// (https://www.rabbitmq.com/docs/management#statistics-interval).
func (b *broker) hasConsumer(ctx context.Context, queue string) bool {
	if b.conn == nil {
		return false
	}
	state, _, err := b.conn.QueueState(ctx, queue)
	return err == nil && state.Consumers > 0
}

// PoliciesRemedy is the remedy for processes of one role with different policies.
const PoliciesRemedy = "give these processes the same routes, retry and fingerprint settings, or leave the role to one of them: see roles in the configuration"

func (t topologyChecks) reportRole(p role.Presence) {
	if len(p.Strangers) > 0 {
		t.report(StrangerConsumes, Warning, fmt.Sprintf("a consumer that is no process of Watership takes messages from %s: %s",
			strings.Join(p.Role.Queues(t.Topology), " or "), firstOf(maxNames, p.Strangers)),
			"stop it; to read events, declare a queue of your own and bind it to "+t.Topology.Events())
	}
	if len(p.Policies()) > 1 {
		t.report(PoliciesDiffer, Warning, PoliciesText(p), PoliciesRemedy)
	}
	switch {
	case len(p.Unconsumed) > 0:
		t.report(RoleUnattended, Warning, fmt.Sprintf("no process has the role %s for %s", p.Role, strings.Join(p.Unconsumed, ", ")),
			"run watership serve, or a pipeline with Standalone")
	case len(p.Consumers) > 0:
		t.reportOK(RolesCheck, "%s runs in %s", p.Role, firstOf(maxNames, processes(p)))
	case len(p.Strangers) == 0 && len(p.Role.Queues(t.Topology)) > 0:
		t.reportOK(RolesCheck, "%s runs, RabbitMQ does not list where yet", p.Role)
	}
}

// PoliciesText describes the processes of one role that have different policies.
func PoliciesText(p role.Presence) string {
	var each []string
	for _, c := range p.Consumers {
		each = append(each, fmt.Sprintf("%s (%s)", c.Process, c.Policies))
	}
	return fmt.Sprintf("processes with the role %s have different policies, and any of them may get a message: %s", p.Role, firstOf(maxNames, each))
}

func processes(p role.Presence) []string {
	var all []string
	for _, c := range p.Consumers {
		all = append(all, c.Process)
	}
	return slices.Compact(all)
}
