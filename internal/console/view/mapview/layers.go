package mapview

import (
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
)

// layersOf divides the nodes by their distance from the publishers that handle nothing or, where there are none, from
// the first node. In a layer, nodes are in the order of the edges.
func layersOf(edges []messages.MapEdge) (layers [][]messages.MapNode) {
	distances := distancesOf(edges)
	placed := map[messages.MapNode]bool{}
	for _, e := range edges {
		for _, n := range []messages.MapNode{e.From, e.To} {
			if placed[n] {
				continue
			}
			placed[n] = true
			for len(layers) <= distances[n] {
				layers = append(layers, nil)
			}
			layers[distances[n]] = append(layers[distances[n]], n)
		}
	}
	return layers
}

func distancesOf(edges []messages.MapEdge) map[messages.MapNode]int {
	distances, reached := map[messages.MapNode]int{}, map[messages.MapNode]bool{}
	for _, e := range edges {
		reached[e.To] = true
	}
	var next []messages.MapNode
	begin := func(n messages.MapNode) {
		if _, known := distances[n]; !known {
			distances[n] = 0
			next = append(next, n)
		}
	}
	spread := func() {
		for ; len(next) > 0; next = next[1:] {
			for _, e := range edges {
				if _, known := distances[e.To]; e.From == next[0] && !known {
					distances[e.To] = distances[e.From] + 1
					next = append(next, e.To)
				}
			}
		}
	}
	for _, e := range edges {
		if !reached[e.From] {
			begin(e.From)
		}
	}
	spread()
	for _, e := range edges { // of circles without a beginning
		begin(e.From)
		spread()
	}
	return distances
}

// label has the texts of a node.
type label struct {
	title   string // of the node and its kind
	name    string
	numbers string // of its messages
	failed  string
}

// labelsOf adds up the edges to each node, and those from the nodes that no edge reaches.
func labelsOf(edges []messages.MapEdge) map[messages.MapNode]label {
	type sum struct {
		into, from float64
		failed     int64
		p95        float64 // the greatest
	}
	sums := map[messages.MapNode]sum{}
	for _, e := range edges {
		to := sums[e.To]
		to.into += e.Rate
		to.failed += e.Failed
		to.p95 = max(to.p95, e.P95)
		sums[e.To] = to
		from := sums[e.From]
		from.from += e.Rate
		sums[e.From] = from
	}
	labels := map[messages.MapNode]label{}
	for n, s := range sums {
		rate := s.into
		if rate == 0 {
			rate = s.from
		}
		l := label{name: nameOf(n), numbers: wording.Rate(rate), failed: failedText(n.Kind, s.failed)}
		kind := n.Kind
		if isService(kind) {
			kind = messages.MapServices
		}
		if l.title = kind + " " + l.name; n.Name == "" {
			l.title = l.name
		}
		if s.p95 > 0 {
			l.numbers += " · p95 " + wording.Duration(durationOf(s.p95))
		}
		labels[n] = l
	}
	return labels
}
