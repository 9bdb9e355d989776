// Package markdown makes HTML of the pages of the documentation.
package markdown

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Page is a rendered page.
type Page struct {
	HTML     string // HTML that the page contains is left out
	Headings []Heading
}

// Heading is a heading of a page. ID is the anchor that it has on GitHub.
type Heading struct {
	Level    int // from 1
	ID, Text string
}

// Render renders a page in GitHub's Markdown. link returns the address of a link or a picture. An empty
// one leaves the text of a link alone, and no picture.
func Render(page string, link func(to string) string) (Page, error) {
	source := []byte(page)
	made := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	root := made.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	headings := readHeadings(root, source)
	setLinks(root, link)
	var out bytes.Buffer
	if err := made.Renderer().Render(&out, source, root); err != nil {
		return Page{}, fmt.Errorf("rendering a page of the documentation: %w", err)
	}
	return Page{HTML: accessible().Replace(out.String()), Headings: headings}, nil
}

// accessible lets tables and code that are wider than a phone scroll by themselves, also with keys. A column
// without a name has no heading.
func accessible() *strings.Replacer {
	return strings.NewReplacer("<table>", `<div class="wide" tabindex="0"><table>`, "</table>", "</table></div>", "<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>")
}

func readHeadings(root ast.Node, source []byte) (found []Heading) {
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, is := n.(*ast.Heading); is {
			id, _ := h.AttributeString("id")
			found = append(found, Heading{Level: h.Level, ID: string(id.([]byte)), Text: plain(h, source)})
		}
	}
	return found
}

// plain returns the text of a node without marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if t, is := child.(*ast.Text); is {
			b.Write(t.Segment.Value(source))
		}
		b.WriteString(plain(child, source))
	}
	return b.String()
}

func setLinks(in ast.Node, link func(to string) string) {
	for n := in.FirstChild(); n != nil; {
		next := n.NextSibling()
		setLinks(n, link)
		to := destination(n)
		if to != nil {
			*to = []byte(link(string(*to)))
		}
		if to != nil && len(*to) == 0 {
			unlink(n)
		}
		n = next
	}
}

// unlink puts the text of a link in its place.
func unlink(n ast.Node) {
	parent := n.Parent()
	for child := n.FirstChild(); child != nil && n.Kind() == ast.KindLink; child = n.FirstChild() {
		parent.InsertBefore(parent, n, child)
	}
	parent.RemoveChild(parent, n)
}

func destination(n ast.Node) *[]byte {
	switch n := n.(type) {
	case *ast.Link:
		return &n.Destination
	case *ast.Image:
		return &n.Destination
	}
	return nil
}

// anchors gives headings the anchors of GitHub.
type anchors map[string]bool

// Anchor returns the anchor of the first heading with a text.
func Anchor(heading string) string {
	return strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// Generate implements parser.IDs.
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	name := Anchor(string(heading))
	id := name
	for n := 1; a[id]; n++ {
		id = name + "-" + strconv.Itoa(n)
	}
	a[id] = true
	return []byte(id)
}

// Put implements parser.IDs.
func (a anchors) Put(id []byte) { a[string(id)] = true }
