package doctor

import (
	"testing"

	"github.com/watershipmq/watership/internal/rabbit"
)

// RabbitMQ tells the policies of a queue some seconds after they were saved. Until then those count
// that are for the queue.
func TestPoliciesThatAreNotAppliedYet(t *testing.T) {
	limit := map[string]any{"max-length": 5.0}
	policies := []rabbit.Policy{
		{Name: "all", Pattern: "^w", ApplyTo: "queues", Priority: 4, Definition: limit},
		{Name: "ours", Pattern: `^w\.`, ApplyTo: "queues", Priority: 5, Definition: map[string]any{"max-length": 9.0}},
		{Name: "equal", Pattern: `^w\.`, ApplyTo: "queues", Priority: 5, Definition: limit},
		{Name: "look-around", Pattern: "^(?=w)", ApplyTo: "queues", Priority: 3, Definition: limit},
		{Name: "unreadable", Pattern: "(?R)w(*FAIL)", ApplyTo: "queues", Priority: 3, Definition: limit},
		{Name: "elsewhere", Pattern: "^x", ApplyTo: "queues", Priority: 9, Definition: limit},
	}
	for _, c := range []struct{ queue, told, want string }{
		{"w.index", "all", "ours"},
		{"w.index", "unknown", "unknown"},
		{"w.index", "", "ours"},
		{"w.index", "elsewhere", "ours"},
		{"w.index", "unreadable", "unreadable"},
		{"w.index", "ours", "ours"},
		{"w.index", "equal", "equal"},
		{"w.index", "look-around", "ours"},
		{"w-orders", "all", "all"},
		{"w-orders", "ours", "all"},
		{"other", "all", ""},
	} {
		queue := rabbit.Queue{Name: c.queue, Type: "quorum", Policy: c.told}
		if c.told != "" {
			queue.Effective = limit
		}
		b := &broker{policies: policies, queues: map[string]rabbit.Queue{c.queue: queue}}
		b.applyPolicies(nil)
		if got := b.queues[c.queue].Policy; got != c.want {
			t.Errorf("queue %s, of which RabbitMQ tells %q, has policy %q, want %q", c.queue, c.told, got, c.want)
		}
	}
}
