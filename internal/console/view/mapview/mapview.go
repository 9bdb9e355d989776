// Package mapview lays out a map of services as pictures for SVG: messages go from the top down, in layers of nodes.
package mapview

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
)

// Map is a map with its edges as a list, and as a picture for each width of screens.
type Map struct {
	Edges         []Edge // those with most messages first
	Pictures      []Picture
	OmittedEdges  int
	OmittedEvents int64
}

// Edge is a way of messages, with the page of its messages.
type Edge struct {
	From, To string // as people read them
	Messages int64
	Rate     string
	Failed   string        // what failed; "": nothing
	P95      time.Duration // zero: not known
	Link     string
}

// Text describes an edge in a sentence.
func (e Edge) Text() string {
	text := fmt.Sprintf("%s to %s: %s, %s", e.From, e.To, wording.Plural(int(e.Messages), "message"), e.Rate)
	if e.P95 > 0 {
		text += ", p95 " + wording.Duration(e.P95)
	}
	if e.Failed != "" {
		text += ", " + e.Failed
	}
	return text
}

// New makes the pictures of a map. link returns the page of the messages of a query.
func New(found messages.ServiceMap, link func(query string) string) Map {
	edges := named(found.Edges)
	m := Map{OmittedEdges: found.OmittedEdges, OmittedEvents: found.OmittedEvents}
	for _, e := range edges {
		m.Edges = append(m.Edges, Edge{
			From: nameOf(e.From), To: nameOf(e.To), Messages: e.Messages, Rate: wording.Rate(e.Rate), Failed: failedText(e.To.Kind, e.Failed),
			P95: durationOf(e.P95), Link: link(e.Query),
		})
	}
	if len(edges) == 0 {
		return m
	}
	layers, labels := layersOf(edges), labelsOf(edges)
	for _, size := range []size{
		{name: "large", width: 200, gap: 24, inRow: 5, letters: 25},
		{name: "small", width: 138, gap: 12, inRow: 2, letters: 17},
	} {
		m.Pictures = append(m.Pictures, size.draw(layers, labels, edges, m.Edges))
	}
	return m
}

func durationOf(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// unknownOf begins the kind of a node for the service of a queue that is not known.
const unknownOf = "service of "

// named gives each queue whose service is not known a node of its own.
func named(edges []messages.MapEdge) []messages.MapEdge {
	list := make([]messages.MapEdge, len(edges))
	for i, e := range edges {
		if e.To.Kind == messages.MapServices && e.To.Name == "" {
			e.To.Kind = unknownOf + e.From.Name
		}
		list[i] = e
	}
	return list
}

func isService(kind string) bool {
	return kind == messages.MapServices || strings.HasPrefix(kind, unknownOf)
}

func nameOf(n messages.MapNode) string {
	switch {
	case n.Name != "":
		return wording.OneLine(n.Name)
	case n.Kind == messages.MapExchanges:
		return "default exchange"
	case n.Kind == messages.MapServices:
		return "unknown publisher"
	}
	return "unknown service"
}

// failedText says what failed on an edge to a node of a kind.
func failedText(kind string, n int64) string {
	switch {
	case n == 0:
		return ""
	case kind == messages.MapQueues:
		return strconv.FormatInt(n, 10) + " given up"
	}
	return wording.Plural(int(n), "failed attempt")
}
