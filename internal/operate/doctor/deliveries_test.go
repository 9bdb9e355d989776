package doctor

import (
	"testing"

	"github.com/watershipmq/watership/internal/rabbit"
)

// By policies for all queues, RabbitMQ gives a message to a second consumer while the first one has it, or later
// messages of a key before one that was returned.
func TestPoliciesThatChangeDeliveries(t *testing.T) {
	log, orders := names().Log(), rabbit.Queue{Name: "orders", Type: "quorum"}
	has := func(setting string, value any) func(*rabbit.Queue) {
		return func(q *rabbit.Queue) { q.Policy, q.Effective = "all", map[string]any{setting: value} }
	}
	classic := rabbit.Queue{Name: "orders", Type: "classic", Policy: "all", Effective: map[string]any{"consumer-timeout": 10_000.0, "delayed-retry-type": "all"}}
	for name, test := range map[string]struct {
		queues         []rabbit.Queue
		detail, remedy string // "": no finding
	}{
		"none":        {append(ownQueues(), orders), "", ""},
		"long enough": {with(ownQueues(), log, has("consumer-timeout", 1_800_000.0)), "", ""},
		"too short": {
			with(ownQueues(), log, has("consumer-timeout", 10_000.0)),
			`policy "all" takes a message from its consumer after a while (consumer-timeout 10000), and gives it to another one at the same time, in 1 queue: ` + log,
			`set consumer-timeout to at least 1800000 there, or narrow the pattern of policy "all"`,
		},
		"too short for a route": {with(append(ownQueues(), orders), "orders", has("consumer-timeout", 1_799_999.0)), "in 1 queue: orders", ""},
		"delayed":               {with(ownQueues(), log, has("delayed-retry-type", "returned")), `policy "all" keeps back what a consumer returns (delayed-retry-type returned)`, "take delayed-retry-type out"},
		"delayed in a route":    {with(append(ownQueues(), orders), "orders", has("delayed-retry-type", "all")), "in 1 queue: orders", ""},
		"not delayed":           {with(ownQueues(), log, has("delayed-retry-type", "disabled")), "", ""},
		"a classic queue":       {append(ownQueues(), classic), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := listing(t, settings(t, orderedRoute), test.queues...)
			d.topology().checkDeliveries()
			if test.detail == "" && len(d.findings) > 0 {
				t.Error(text(d.findings))
			}
			if test.detail != "" {
				want(t, d.findings, Error, test.detail, test.remedy)
			}
		})
	}
}
