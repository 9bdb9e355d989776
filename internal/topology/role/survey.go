package role

import (
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Presence lists the processes that have a role.
type Presence struct {
	Role       Role
	Consumers  []Consumer // one of each process
	Unconsumed []string   // queues of the role without a consumer
	Strangers  []string   // tags of consumers that are no process of Watership with this role
}

// Policies returns the different digests of policies that the processes apply.
func (p Presence) Policies() []string {
	var different []string
	for _, c := range p.Consumers {
		if !slices.Contains(different, c.Policies) {
			different = append(different, c.Policies)
		}
	}
	slices.Sort(different)
	return different
}

// Survey returns the presence of each role, from the consumer tags by queue.
func Survey(t schemas.Topology, tags map[string][]string) []Presence {
	var roles []Presence
	for _, r := range All() {
		p := Presence{Role: r}
		for _, queue := range r.Queues(t) {
			p.add(tags[queue])
			if len(tags[queue]) == 0 {
				p.Unconsumed = append(p.Unconsumed, queue)
			}
		}
		if r == Routes {
			p.addRoutes(tags)
		}
		slices.SortFunc(p.Consumers, func(a, b Consumer) int { return strings.Compare(a.Process, b.Process) })
		roles = append(roles, p)
	}
	return roles
}

func (p *Presence) add(tags []string) {
	for _, tag := range tags {
		c, ours := ParseTag(tag)
		switch {
		case strings.HasPrefix(tag, rabbit.LookingTag):
		case !ours || c.Role != p.Role:
			p.Strangers = append(p.Strangers, tag)
		case !slices.Contains(p.Consumers, c):
			p.Consumers = append(p.Consumers, c)
		}
	}
}

// addRoutes adds the processes with routes, whose queues may have other consumers.
func (p *Presence) addRoutes(tags map[string][]string) {
	for _, ofQueue := range tags {
		for _, tag := range ofQueue {
			if c, ours := ParseTag(tag); ours && c.Role == Routes && !slices.Contains(p.Consumers, c) {
				p.Consumers = append(p.Consumers, c)
			}
		}
	}
}
