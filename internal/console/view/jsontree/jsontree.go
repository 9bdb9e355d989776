// Package jsontree reads JSON as a tree of bounded size, for people who look into it.
package jsontree

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/render/indent"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// Node is a value. Texts are as they are written, with quotes and escapes.
type Node struct {
	Name    string // quoted; "" in an array
	Text    string // of a value that is no object and no array
	Open    string // { or [; "" for other values
	Nodes   []Node // in an object or array
	Members int    // number of nodes, with those that are left out
	Level   int    // 0: the root

	Unfolded bool // an object or array that is shown open at first: all of a small tree, else the outer ones
}

// Limits bound a tree.
type Limits struct {
	Nodes int // in the tree
	Depth int // of objects and arrays
}

// Parse returns the tree of a body that is an object or an array. Left out are the nodes of
// objects and arrays that are too deep, and those after the limit of nodes.
func Parse(body []byte, limits Limits) (root Node, isJSON bool) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !indent.IsJSON(body) {
		return Node{}, false
	}
	t := tree{tokens: jsonscan.New(bytes.TrimSpace(body)), left: limits.Nodes, deepest: limits.Depth}
	root = t.node(0)
	root.unfold(limits.Nodes-t.left <= smallTree)
	return root, true
}

const (
	smallTree     = 200 // nodes
	outerLevels   = 2   // that are open in a larger tree
	unfoldedNodes = 50  // at most, of an object or array that is open there
)

func (n *Node) unfold(isSmall bool) {
	n.Unfolded = isSmall || n.Level < outerLevels && n.Members <= unfoldedNodes
	for i := range n.Nodes {
		n.Nodes[i].unfold(isSmall)
	}
}

// tree reads the tokens of valid JSON.
type tree struct {
	tokens  *jsonscan.Reader
	left    int // nodes until the limit
	deepest int
}

func (t *tree) node(level int) Node { return t.nodeAt(t.tokens.Token(), level) }

// nodeAt reads the value that begins with a token.
func (t *tree) nodeAt(token []byte, level int) Node {
	t.left--
	n := Node{Level: level}
	if token[0] != '{' && token[0] != '[' {
		n.Text = string(token)
		return n
	}
	n.Open = string(token)
	for next := t.tokens.Token(); next[0] != '}' && next[0] != ']'; next = t.tokens.Token() {
		if next[0] == ',' {
			continue
		}
		var name []byte
		if n.Open == "{" {
			name = next
			t.tokens.Token() // the colon
			next = t.tokens.Token()
		}
		n.Members++
		if t.left <= 0 || level >= t.deepest {
			t.skip(next)
			continue
		}
		inner := t.nodeAt(next, level+1)
		inner.Name = string(name)
		n.Nodes = append(n.Nodes, inner)
	}
	return n
}

// skip reads the rest of a value.
func (t *tree) skip(token []byte) {
	for open := 0; ; token = t.tokens.Token() {
		switch token[0] {
		case '{', '[':
			open++
		case '}', ']':
			open--
		}
		if open == 0 {
			return
		}
	}
}

// LeftOut is the number of nodes of an object or array that the tree does not have.
func (n Node) LeftOut() int { return n.Members - len(n.Nodes) }

// Kind returns string, number or literal for a value that is no object and no array.
func (n Node) Kind() string {
	switch c := n.Text[0]; {
	case c == '"':
		return "string"
	case c == '-' || c >= '0' && c <= '9':
		return "number"
	}
	return "literal"
}

// Bounds of texts.
const (
	maxShort = 200      // characters
	maxLong  = 64 << 10 // bytes
)

// IsLong reports whether Short is only the beginning of the text.
func (n Node) IsLong() bool {
	return len(n.Text) > maxShort && utf8.RuneCountInString(n.Text) > maxShort
}

// Short returns the text, or its beginning.
func (n Node) Short() string {
	if !n.IsLong() {
		return n.Text
	}
	return string([]rune(n.Text)[:maxShort]) + "…"
}

// Long returns the text, or the first 64 KiB of it. A string has no quotes and
// escapes.
func (n Node) Long() string {
	text := n.Text
	if n.Kind() == "string" {
		_ = json.Unmarshal([]byte(n.Text), &text) // it is valid
	}
	return text[:min(len(text), maxLong)]
}
