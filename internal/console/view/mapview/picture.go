package mapview

import (
	"fmt"
	"math"

	"github.com/watershipmq/watership/internal/operate/messages"
)

// Picture is a map drawn for screens of some width. Lengths are pixels.
type Picture struct {
	Name          string // large or small
	Width, Height int
	Nodes         []Node
	Lines         []Line
}

// Node is a service, an exchange or a queue, with its place.
type Node struct {
	Kind, Title           string
	Name, Numbers, Failed string // its lines
	X, Y, Width, Height   int
	Round                 int // radius of its corners
}

// Line is the line of an edge.
type Line struct {
	Edge
	Path  string  // of SVG
	Head  string  // likewise, of the arrow
	Width float64 // of the line
}

// size is what pictures differ in.
type size struct {
	name    string
	width   int // of a node
	gap     int // between the nodes of a row
	inRow   int // the greatest number of nodes
	letters int // of a line of text
}

// Lengths in all pictures.
const (
	nodeHeight = 42
	failedLine = 15 // height of one more line
	rowGap     = 22 // between the rows of a layer
	layerGap   = 44
	margin     = 6
	arrow      = 4 // half of its width
)

// draw places the layers below one another, and draws an edge between the places of its nodes.
func (s size) draw(layers [][]messages.MapNode, labels map[messages.MapNode]label, edges []messages.MapEdge, texts []Edge) Picture {
	widest := 0
	for _, layer := range layers {
		widest = max(widest, min(len(layer), s.inRow))
	}
	p := Picture{Name: s.name, Width: widest*(s.width+s.gap) - s.gap + 2*margin}
	places := map[messages.MapNode]Node{}
	y := margin
	for _, layer := range layers {
		for row, rest := 0, layer; len(rest) > 0; row++ {
			nodes := rest[:min(len(rest), s.capacity(row))]
			rest = rest[len(nodes):]
			height := nodeHeight
			for i, n := range nodes {
				node := s.node(n, labels[n])
				node.X, node.Y = s.begin(p.Width, row, len(nodes), len(layer) > s.inRow)+i*(s.width+s.gap), y
				height = max(height, node.Height)
				places[n] = node
				p.Nodes = append(p.Nodes, node)
			}
			if y += height + rowGap; len(rest) == 0 {
				y += layerGap - rowGap
			}
		}
	}
	p.Height = y - layerGap + margin
	for i, e := range edges {
		p.Lines = append(p.Lines, newLine(texts[i], places[e.From], places[e.To]))
	}
	return p
}

// capacity is the number of nodes in a row of a layer with several: each second row has one less, so that lines from
// above reach its nodes between the nodes of the row before.
func (s size) capacity(row int) int { return s.inRow - row%2 }

// begin returns the left of the first of n nodes in a row. The nodes of several rows are in columns.
func (s size) begin(width, row, n int, several bool) int {
	if !several {
		return (width - n*(s.width+s.gap) + s.gap) / 2
	}
	left := margin + row%2*(s.width+s.gap)/2
	return left + (s.capacity(row)-n)/2*(s.width+s.gap)
}

func (s size) node(n messages.MapNode, l label) Node {
	node := Node{
		Kind: n.Kind, Title: l.title, Name: s.shorten(l.name), Numbers: l.numbers, Failed: l.failed,
		Width: s.width, Height: nodeHeight, Round: 3,
	}
	if l.failed != "" {
		node.Height += failedLine
	}
	switch {
	case isService(n.Kind):
		node.Kind, node.Round = messages.MapServices, 10
	case n.Kind == messages.MapExchanges:
		node.Round = nodeHeight / 2
	}
	return node
}

// Middle is where the lines and the texts of a node are.
func (n Node) Middle() int { return n.X + n.Width/2 }

func (s size) shorten(name string) string {
	if runes := []rune(name); len(runes) > s.letters {
		return string(runes[:s.letters-1]) + "…"
	}
	return name
}

// newLine draws a curve from the bottom of a node to the top of another one.
func newLine(of Edge, from, to Node) Line {
	x1, y1, x2, y2 := from.Middle(), from.Y+from.Height, to.Middle(), to.Y
	bend, side := max(layerGap, y2-y1)/2, 0
	if y2 < y1 { // a way back goes around
		bend, side = 2*layerGap, from.Width
	}
	return Line{
		Edge: of, Width: 1 + math.Round(8*math.Log10(float64(max(of.Messages, 1))))/10,
		Path: fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, x1+side, y1+bend, x2+side, y2-bend, x2, y2-arrow),
		Head: fmt.Sprintf("M%d %d L%d %d L%d %d Z", x2-arrow, y2-2*arrow, x2, y2, x2+arrow, y2-2*arrow),
	}
}
