package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/rabbit"
)

// The binding of the tap exchange to itself is Watership's, and no leftover: it keeps returns from
// an alternate exchange.
func TestUnconfiguredTaps(t *testing.T) {
	bind := func(source, key string) rabbit.Binding {
		return rabbit.Binding{Source: source, Destination: "watership.tap", RoutingKey: key}
	}
	bindings := []rabbit.Binding{bind("watership.tap", ""), bind("shop", "#"), bind("old", "#"), bind("direct", "a"), bind("direct", "b")}
	taps := []Tap{{Exchange: "shop", Type: "topic"}, {Exchange: "direct", Type: "direct", Keys: []string{"a"}}}
	if diff := cmp.Diff([]rabbit.Binding{bind("old", "#"), bind("direct", "b")}, UnconfiguredTaps(bindings, taps)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
