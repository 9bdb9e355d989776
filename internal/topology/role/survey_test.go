package role

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/schemas"
)

func TestSurvey(t *testing.T) {
	var topology schemas.Topology
	one, two := Consumer{Retry, "a:1", "aa"}, Consumer{Retry, "b:2", "bb"}
	due, route := Consumer{Role: Due, Process: "a:1", Policies: "cc"}, Consumer{Role: Routes, Process: "c:3"}
	roles := Survey(topology, map[string][]string{
		topology.Retry():  {two.Tag(), one.Tag() + "-1"},
		topology.Report(): {one.Tag()},
		topology.Due():    {due.Tag(), due.Tag()},
		topology.Poison(): {"ctag1.0"},
		topology.Log():    {Consumer{Role: Index, Process: "a:1"}.Tag()},
		"orders":          {route.Tag(), route.Tag() + "-2", "ctag2"},
	})
	want := []Presence{
		{Role: Routes, Consumers: []Consumer{route}},
		{Role: Retry, Consumers: []Consumer{one, two}},
		{Role: Due, Consumers: []Consumer{due}},
		{Role: Poison, Strangers: []string{"ctag1.0"}},
		{Role: Index, Consumers: []Consumer{{Role: Index, Process: "a:1"}}, Unconsumed: []string{topology.Index(), topology.IndexLate()}},
		{Role: Subscriptions},
		{Role: Alerts},
	}
	for i := range roles {
		slices.Sort(roles[i].Unconsumed)
	}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p := roles[1].Policies(); !slices.Equal(p, []string{"aa", "bb"}) {
		t.Errorf("policies %v", p)
	}
	if p := roles[2].Policies(); !slices.Equal(p, []string{"cc"}) {
		t.Errorf("policies of one process: %v", p)
	}
}
