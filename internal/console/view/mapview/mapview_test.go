package mapview

import (
	"fmt"
	"slices"
	"testing"

	"github.com/watershipmq/watership/internal/operate/messages"
)

func service(name string) messages.MapNode {
	return messages.MapNode{Kind: messages.MapServices, Name: name}
}

func exchange(name string) messages.MapNode {
	return messages.MapNode{Kind: messages.MapExchanges, Name: name}
}

func queue(name string) messages.MapNode {
	return messages.MapNode{Kind: messages.MapQueues, Name: name}
}

func chain(nodes ...messages.MapNode) (edges []messages.MapEdge) {
	for i, from := range nodes[:len(nodes)-1] {
		edges = append(edges, messages.MapEdge{From: from, To: nodes[i+1], Messages: int64(100 - i), Rate: 1})
	}
	return edges
}

func draw(edges []messages.MapEdge) Map {
	return New(messages.ServiceMap{Edges: edges}, func(query string) string { return "/messages?q=" + query })
}

// overlapping returns nodes of a picture that lie on one another or outside.
func overlapping(p Picture) (found []string) {
	for i, a := range p.Nodes {
		if a.X < 0 || a.Y < 0 || a.X+a.Width > p.Width || a.Y+a.Height > p.Height {
			found = append(found, fmt.Sprintf("%s is outside: %+v", a.Title, a))
		}
		for _, b := range p.Nodes[:i] {
			if a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height {
				found = append(found, a.Title+" lies on "+b.Title)
			}
		}
	}
	return found
}

// Messages go down from the publishers, also where a service publishes back to an exchange above it.
func TestLayers(t *testing.T) {
	edges := append(chain(service("shop"), exchange("orders"), queue("billing"), service("billing"), exchange("bills"), queue("mails"), service("")),
		chain(service("billing"), exchange("orders"))...)
	m := draw(edges)
	for _, p := range m.Pictures {
		y := map[string]int{}
		for _, n := range p.Nodes {
			y[n.Title] = n.Y
		}
		order := []string{"service shop", "exchange orders", "queue billing", "service billing", "exchange bills", "queue mails", "unknown service"}
		if !slices.IsSortedFunc(order, func(a, b string) int { return y[a] - y[b] }) || len(y) != len(order) {
			t.Errorf("%s: %v", p.Name, y)
		}
		if len(p.Lines) != len(edges) {
			t.Errorf("%s has %d lines", p.Name, len(p.Lines))
		}
	}
}

// Layers with any number of nodes fit the width of their screens.
func TestNodesHaveTheirPlaces(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 6, 7, 9, 10, 23} {
		var edges []messages.MapEdge
		for i := range n {
			edges = append(edges, chain(service("shop"), exchange("orders"), queue(fmt.Sprint("q-", i)), service(""))...)
			edges[len(edges)-1].Failed = int64(i % 2)
		}
		for i, p := range draw(edges).Pictures {
			if found := overlapping(p); len(found) > 0 {
				t.Errorf("%d queues, %s: %q", n, p.Name, found)
			}
			if widest := []int{1170, 302}[i]; p.Width > widest {
				t.Errorf("%d queues, %s: %d pixels wide, want at most %d", n, p.Name, p.Width, widest)
			}
			if want := 2 + 2*n; len(p.Nodes) != want {
				t.Errorf("%d queues, %s: %d nodes, want %d", n, p.Name, len(p.Nodes), want)
			}
		}
	}
}

// A circle of services has a beginning, too.
func TestCircle(t *testing.T) {
	edges := chain(service("a"), exchange("x"), queue("q"), service("a"))
	for _, p := range draw(edges).Pictures {
		if found := overlapping(p); len(found) > 0 || len(p.Nodes) != 3 || p.Nodes[0].Title != "service a" {
			t.Errorf("%s: %+v, %q", p.Name, p.Nodes, found)
		}
	}
	if empty := draw(nil); len(empty.Edges) > 0 {
		t.Errorf("no edges: %+v", empty)
	}
}

// A node has the numbers of the edges to it, and an edge its own in words.
func TestNumbers(t *testing.T) {
	edges := []messages.MapEdge{
		{From: service(""), To: exchange(""), Messages: 10, Rate: 2},
		{From: service("shop"), To: exchange(""), Messages: 5, Rate: 1},
		{From: exchange(""), To: queue("q"), Messages: 15, Rate: 3, Failed: 1, P95: 0.25, Query: "queue: q"},
		{From: queue("q"), To: service(""), Messages: 14, Rate: 2.8, Failed: 2, P95: 0.1},
	}
	m := draw(edges)
	if e := m.Edges[2]; e.Text() != "default exchange to q: 15 messages, 3/s, p95 250 ms, 1 given up" || e.Link != "/messages?q=queue: q" {
		t.Errorf("%s, %s", e.Text(), e.Link)
	}
	got := map[string]string{}
	for _, n := range m.Pictures[0].Nodes {
		got[n.Title] = n.Numbers + "; " + n.Failed
	}
	for title, want := range map[string]string{
		"unknown publisher": "2/s; ", "service shop": "1/s; ", "default exchange": "3/s; ", "queue q": "3/s · p95 250 ms; 1 given up",
		"unknown service": "2.8/s · p95 100 ms; 2 failed attempts",
	} {
		if got[title] != want {
			t.Errorf("%s has %q, want %q", title, got[title], want)
		}
	}
}
