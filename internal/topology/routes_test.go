package topology

import (
	"encoding/json"
	"strings"
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

// FuzzTopicMatches compares topicMatches with a recursive definition that takes
// exponential time.
func FuzzTopicMatches(f *testing.F) {
	f.Add("#", "")
	f.Add("a.*.#", "a.b")
	f.Add("#.#.z", "a.z.z")
	f.Add("*.#.*", "a")
	f.Add("..", "a..")
	f.Fuzz(func(t *testing.T, pattern, key string) {
		parts, words := strings.Split(pattern, "."), strings.Split(key, ".")
		parts, words = parts[:min(len(parts), 6)], words[:min(len(words), 8)]
		if got, want := topicMatches(parts, words), matchesSlowly(parts, words); got != want {
			t.Errorf("%q matches %q: %t, want %t", parts, words, got, want)
		}
	})
}

func matchesSlowly(pattern, words []string) bool {
	switch {
	case len(pattern) == 0:
		return len(words) == 0
	case pattern[0] == "#":
		return matchesSlowly(pattern[1:], words) || len(words) > 0 && matchesSlowly(pattern, words[1:])
	case len(words) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == words[0]) && matchesSlowly(pattern[1:], words[1:])
}

// TestTopicMatchesInTime would not end if the time doubled with each word.
func TestTopicMatchesInTime(t *testing.T) {
	pattern := strings.Split(strings.Repeat("#.", 120)+"z", ".")
	words := strings.Split(strings.Repeat("a.", 120)+"y", ".")
	if topicMatches(pattern, words) {
		t.Error("matches")
	}
}
