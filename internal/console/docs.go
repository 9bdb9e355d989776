package console

import (
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/watershipmq/watership/docs"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/markdown"
)

// contents is the page of the documentation that lists the others.
const contents = "README"

// showDocs shows a page of the documentation of this version, or the list of them.
func showDocs(r *http.Request) (frame.Response, error) {
	pages, err := docs.Pages()
	if err != nil {
		return nil, err
	}
	name := r.PathValue("page")
	at := slices.IndexFunc(pages, func(p docs.Page) bool { return p.Name == name || p.Name == contents && name == "" })
	if at < 0 {
		return nil, &problem.Problem{Code: code.NotFound, Detail: "the documentation has no page " + name, Remedy: "Open the list of its pages: /docs"}
	}
	shown := pages[at]
	made, err := markdown.Render(shown.Text, func(to string) string { return docsLink(pages, shown, to) })
	data := map[string]any{"Name": shown.Name, "Text": template.HTML(made.HTML)} // the renderer alone writes HTML
	return frame.Page{Title: shown.Title, Template: "docs.html", Styles: []string{"docs.css"}, Data: data}, err
}

// docsLink returns the address of a link of a page in the console, and "" for files that only a checkout has.
func docsLink(pages []docs.Page, from docs.Page, to string) string {
	name, anchor, hasAnchor := strings.Cut(to, "#")
	if name == "" || strings.Contains(to, "://") {
		return to
	}
	target := path.Join(path.Dir(from.Path), name)
	if path.Ext(target) == ".svg" {
		return "/docs/" + target
	}
	at := slices.IndexFunc(pages, func(p docs.Page) bool { return p.Path == target })
	if at < 0 {
		return ""
	}
	address := strings.TrimSuffix("/docs/"+pages[at].Name, "/"+contents)
	if hasAnchor {
		address += "#" + anchor
	}
	return address
}

// drawing is a picture of the documentation, as SVG.
type drawing []byte

func showDrawing(r *http.Request) (frame.Response, error) {
	picture, err := docs.Drawing(r.PathValue("name"))
	if err != nil {
		return notFound(r)
	}
	return drawing(picture), nil
}

// Write implements frame.Response. A drawing has styles, which the policy of the console's pages would take from it.
func (d drawing) Write(_ *frame.Frame, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	_, _ = w.Write(d)
}
