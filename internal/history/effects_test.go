package history

import (
	"fmt"
	"testing"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Stores refuse a query that names all messages of a large level at once, and a message with two causes counts once.
func TestEffectsOfManyMessages(t *testing.T) {
	s := newStreamEvents(0)
	s.add(schemas.Handled, "parent", -1)
	for n := range 400 {
		s.add(schemas.Published, fmt.Sprint("child-", n), -1, func(e *schemas.Event) {
			e.Parent, e.Envelope.RoutingKey = "v1:parent", "child"
		})
	}
	s.add(schemas.Published, "grandchild", -1, func(e *schemas.Event) {
		e.Parent, e.Envelope.Headers = "v1:child-0", map[string]any{"causation-id": "child-399"}
	})
	found, err := FindEffects(t.Context(), filledStore(t, s.list), []Sending{{"shop", "order.parent", "orders", 1}}, EffectsConfig{
		Causation: "causation-id", Restrict: func(query kql.Node) (kql.Node, error) { return query, nil },
		Receiver: func(string, schemas.Envelope) string { return "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := found.Published; len(p) != 2 || p[0].RoutingKey != "child" || p[0].Sampled != 400 || p[1].RoutingKey != "order.grandchild" || p[1].Sampled != 1 {
		t.Errorf("%+v", found)
	}
}
