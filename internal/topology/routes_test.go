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

// What was redacted is another text in the original, so that it matches every binding, and the rest does not.
func TestBindingsOfRedactedMessages(t *testing.T) {
	const hash = "mail_3f9a2c71d0b4e8aa0c1d"
	binding := rabbit.Binding{RoutingKey: "order.*.com", Arguments: map[string]any{"customer": "C-4711", "kind": "order"}}
	for _, test := range []struct {
		kind    string
		e       schemas.Envelope
		matches bool
	}{
		{"topic", schemas.Envelope{Redacted: true, RoutingKey: "order." + hash}, true},
		{"topic", schemas.Envelope{Redacted: true, RoutingKey: "order.created"}, false},
		{"topic", schemas.Envelope{RoutingKey: "order." + hash}, false},
		{"direct", schemas.Envelope{Redacted: true, RoutingKey: hash}, true},
		{"direct", schemas.Envelope{Redacted: true, RoutingKey: "order.created"}, false},
		{"headers", schemas.Envelope{Redacted: true, Headers: amqp.Table{"customer": hash, "kind": "order"}}, true},
		{"headers", schemas.Envelope{Redacted: true, Headers: amqp.Table{"customer": hash, "kind": "other"}}, false},
	} {
		if got := bindingMatches(test.kind, binding, test.e); got != test.matches {
			t.Errorf("%s, %+v: %t", test.kind, test.e, got)
		}
	}
}
