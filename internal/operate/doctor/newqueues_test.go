package doctor

import (
	"maps"
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
		{"w.index", "removed", "ours"},
		{"w.index", "", "ours"},
		{"w.index", "elsewhere", "ours"},
		{"w.index", "look-around", "ours"},
		{"w.index", "unreadable", "unreadable"},
		{"w.index", "ours", "ours"},
		{"w.index", "equal", "equal"},
		{"w-orders", "all", "all"},
		{"w-orders", "ours", "all"},
		{"other", "all", ""},
		{"other", "removed", ""},
	} {
		queue := rabbit.Queue{Name: c.queue, Type: "quorum", Policy: c.told, Effective: map[string]any{"max-length": 77.0}}
		b := &broker{policies: policies, queues: map[string]rabbit.Queue{c.queue: queue}}
		b.applyPolicies(nil)
		got, want := b.queues[c.queue], map[string]any{}
		for _, p := range policies {
			if p.Name == c.want {
				want = p.Definition
			}
		}
		if got.Policy != c.want || !maps.Equal(got.Effective, want) {
			t.Errorf("queue %s, of which RabbitMQ tells %q, has policy %q with %v, want %q with %v", c.queue, c.told, got.Policy, got.Effective, c.want, want)
		}
	}
}

// A policy of an operator that is new leaves the policy as RabbitMQ tells it.
func TestEachKindOfPoliciesCountsByItself(t *testing.T) {
	unreadable := rabbit.Policy{Name: "unreadable", Pattern: "(?R)w(*FAIL)", ApplyTo: "queues", Definition: map[string]any{"max-length": 5.0}}
	b := &broker{policies: []rabbit.Policy{unreadable}, queues: map[string]rabbit.Queue{"w": {Name: "w", Type: "quorum", Policy: "unreadable"}}}
	b.applyPolicies([]rabbit.Policy{{Name: "expiry", Pattern: "^w", ApplyTo: "queues", Definition: map[string]any{"expires": 1.0}}})
	if got := b.queues["w"]; got.Policy != "unreadable" || got.OperatorPolicy != "expiry" || got.Effective["max-length"] != 5.0 || got.Effective["expires"] != 1.0 {
		t.Errorf("the queue has %q and %q with %v", got.Policy, got.OperatorPolicy, got.Effective)
	}
}
