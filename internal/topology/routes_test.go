package topology

import (
	"encoding/json"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// FuzzBindingMatches checks that routes can be computed from any bindings.
func FuzzBindingMatches(f *testing.F) {
	f.Add(`[{"destination_type":"queue","routing_key":"#.*.","arguments":{"x-match":"any","a":null}}]`)
	f.Add(`[{"routing_key":"a.b.c","arguments":{"x-match":1,"a":{"b":[]}}},{"arguments":null}]`)
	f.Fuzz(func(t *testing.T, listed string) {
		var bindings []rabbit.Binding
		if json.Unmarshal([]byte(listed), &bindings) != nil {
			t.Skip()
		}
		e := schemas.Envelope{RoutingKey: "a.b.c", Headers: amqp.Table{"a": "b"}}
		for _, binding := range bindings {
			bindingMatches("topic", binding, e)
			bindingMatches("headers", binding, e)
			if direct := bindingMatches("direct", binding, e); direct != (binding.RoutingKey == "a.b.c") {
				t.Errorf("direct, %+v: %t", binding, direct)
			}
			if !bindingMatches("fanout", binding, e) {
				t.Errorf("fanout, %+v: not routed", binding)
			}
		}
	})
}
