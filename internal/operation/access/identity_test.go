package access

import (
	"errors"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

func TestIdentityInContext(t *testing.T) {
	none := FromContext(t.Context())
	if none.May(Viewer) || none.May(0) || none.MayQueue("orders") || none.MayExchange("") {
		t.Errorf("a request without an identity may: %+v", none)
	}
	if got := FromContext(NewContext(t.Context(), Identity{Name: "ada"})); got.Name != "ada" {
		t.Errorf("got %+v", got)
	}
}

func TestRolesIncludeLowerOnes(t *testing.T) {
	all := []Role{Viewer, Operator, Admin}
	for have, role := range all {
		for want, other := range all {
			if got := (Identity{Role: role}).May(other); got != (have >= want) {
				t.Errorf("%s may what %s may: %t", role, other, got)
			}
		}
		if parsed, err := ParseRole(role.String()); parsed != role || err != nil {
			t.Errorf("%s: %v, %v", role, parsed, err)
		}
	}
	for _, name := range []string{"", "none", "Admin", "root"} {
		if _, err := ParseRole(name); err == nil {
			t.Errorf("%q is a role", name)
		}
	}
}

func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		queues, exchanges []string
		queue, exchange   string
		mayQ, mayE        bool
	}{
		"none":                {nil, nil, "orders", "", true, true},
		"queue":               {[]string{"orders"}, nil, "orders", "shop", true, false},
		"another queue":       {[]string{"orders"}, nil, "orders.poison", "", false, false},
		"exchange":            {nil, []string{"shop"}, "orders", "shop", false, true},
		"pattern":             {[]string{"orders.*"}, []string{"*"}, "orders.eu/1", "", true, true},
		"pattern in between":  {[]string{"a*b*c"}, []string{"x"}, "a-b-b-c", "y", true, false},
		"no match of pattern": {[]string{"a*b*c"}, []string{"s*"}, "a-c", "shop", false, true},
		"one of several":      {[]string{"a", "b"}, []string{"x", ""}, "b", "", true, true},
		"no regular exprs":    {[]string{"orders."}, []string{"[a-z]*"}, "ordersx", "shop", false, false},
	} {
		i := Identity{Role: Viewer, Queues: test.queues, Exchanges: test.exchanges}
		if q, e := i.MayQueue(test.queue), i.MayExchange(test.exchange); q != test.mayQ || e != test.mayE {
			t.Errorf("%s: %t and %t", name, q, e)
		}
	}
}

func TestRestrictLimitsEvents(t *testing.T) {
	for name, test := range map[string]struct {
		identity Identity
		want     string
	}{
		"no limit":  {Identity{}, `event.action: poisoned`},
		"queues":    {Identity{Queues: []string{"orders", "eu.*"}}, `event.action: poisoned and ((watership.queue: "orders" or watership.queue: eu.*) or (not watership.queue: * and not *: *))`},
		"exchanges": {Identity{Exchanges: []string{"shop"}}, `event.action: poisoned and (not *: * or (not watership.queue: * and messaging.destination.name: "shop"))`},
	} {
		test.identity.Role = Viewer
		got, err := test.identity.Restrict(parse(t, "event.action: poisoned"))
		if err != nil || !kql.Equal(got, mustParse(t, test.want)) {
			t.Errorf("%s: %v, %v, want %s", name, got, err, test.want)
		}
	}
	if query, err := (Identity{}).Restrict(nil); err == nil {
		t.Errorf("an identity without a role may see %v", query)
	}
}

func TestRestrictKeepsBodiesFromSearches(t *testing.T) {
	blind, reader := Identity{Role: Admin}, Identity{Role: Viewer, Bodies: true}
	for _, query := range []string{
		"secret", `"secret"`, "text: secret", "body.text: s*", "body.json.card: 4", "not body.text: x",
		"b*: secret", "*: 4111", "*.text: s", "body.text: *", "event.action: poisoned and (x or error.type: y)",
	} {
		node := parse(t, query)
		var refused *BodySearchError
		if _, err := blind.Restrict(node); !errors.As(err, &refused) {
			t.Errorf("%s: %v", query, err)
		}
		if got, err := reader.Restrict(node); err != nil || !kql.Equal(got, node) {
			t.Errorf("%s: %v, %v", query, got, err)
		}
	}
	if _, err := blind.Restrict(kql.Raw{JSON: `{"match_all":{}}`}); err == nil {
		t.Error("a query of Elasticsearch may search bodies")
	}
	for _, query := range []string{"", "*: *", "error.message: secret", "headers.body: x", "size > 3", "watership.queue: *", "e*: x"} {
		if _, err := blind.Restrict(parse(t, query)); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// parse returns a query with resolved fields.
func parse(t *testing.T, text string) kql.Node {
	t.Helper()
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	fields.Labels = []string{"headers.body"}
	node, err := kql.Resolve(mustParse(t, text), fields)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func mustParse(t *testing.T, text string) kql.Node {
	t.Helper()
	node, err := kql.Parse(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return node
}
