package access

import (
	"testing"

	"github.com/watershipmq/watership/eventstore/kql"
)

func TestWithin(t *testing.T) {
	bob := Identity{Name: "bob", Role: Viewer, Queues: []string{"orders", "mail*"}, Exchanges: []string{"shop"}}
	restricted := func(i Identity, text string) string {
		node, err := kql.Parse(text)
		if err == nil {
			node, err = i.Restrict(node)
		}
		if err != nil {
			t.Fatal(err)
		}
		return kql.And{node, kql.FieldIs("event.action", "poisoned")}.String()
	}
	other := bob
	other.Queues = []string{"mail*"}
	everybody := Identity{Role: Viewer}
	for name, test := range map[string]struct {
		of    Identity
		query string
		want  bool
	}{
		"its own":             {bob, restricted(bob, "a: 1 or b: 2"), true},
		"all of its events":   {bob, restricted(bob, "*: *"), true},
		"more queues":         {other, restricted(bob, "a: 1"), false},
		"an alternative":      {bob, "a: 1 or (" + bob.visible().String() + ")", false},
		"without limits":      {everybody, "a: 1", true},
		"without a role":      {Identity{}, "a: 1", false},
		"no query":            {bob, "(", false},
		"the query of others": {bob, "a: 1", false},
	} {
		if got := test.of.Within(test.query); got != test.want {
			t.Errorf("%s: %t for %s", name, got, test.query)
		}
	}
}
