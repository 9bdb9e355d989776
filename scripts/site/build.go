package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/render/markdown"
)

var (
	//go:embed page.html
	layout string

	//go:embed search.js
	search []byte

	//go:embed site.css
	styles []byte
)

// site is made of a checkout. A file of the site has the path that it has there.
type site struct {
	root    fs.FS
	pages   []*page
	files   map[string][]byte
	anchors []anchor // of links
	wrong   []error  // links that lead nowhere
}

// page is a page with what its template needs.
type page struct {
	Path, Title, Text string
	markdown.Page
	Contents []part
}

// anchor is a heading to which a page links.
type anchor struct {
	from, to *page
	id       string
}

// build returns the files of the site by their paths.
func build(root fs.FS) (map[string][]byte, error) {
	s := &site{root: root, files: map[string][]byte{"search.js": search, "site.css": styles}}
	for _, step := range []func() error{s.read, s.render, s.execute, s.index, s.copyLooks} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s.files, nil
}

// read takes the pages, also as Markdown.
func (s *site) read() error {
	for _, pattern := range []string{"*.md", "deploy/*.md", "docs/*.md", "docs/guides/*.md", "docs/decisions/*.md"} {
		names, err := fs.Glob(s.root, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := fs.ReadFile(s.root, name)
			if err != nil {
				return err
			}
			title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
			s.pages = append(s.pages, &page{Path: name, Title: title, Text: string(text)})
			s.files[name] = text
		}
	}
	return nil
}

// page returns nil for a file that is no page.
func (s *site) page(name string) *page {
	if at := slices.IndexFunc(s.pages, func(p *page) bool { return p.Path == name }); at >= 0 {
		return s.pages[at]
	}
	return nil
}

func (s *site) render() error {
	for _, p := range s.pages {
		made, err := markdown.Render(p.Text, func(to string) string { return s.link(p, to) })
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		p.Page = made
	}
	for _, a := range s.anchors {
		if !slices.ContainsFunc(a.to.Headings, func(h markdown.Heading) bool { return h.ID == a.id }) {
			s.wrong = append(s.wrong, fmt.Errorf("%s: %s has no heading for #%s", a.from.Path, a.to.Path, a.id))
		}
	}
	return errors.Join(s.wrong...)
}

// link returns the address of a link of a page, and takes the file that it names into the site.
func (s *site) link(from *page, to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	name, id, hasID := strings.Cut(to, "#")
	target := path.Join(path.Dir(from.Path), name)
	if name == "" {
		target = from.Path
	}
	linked := s.page(target)
	if hasID && linked != nil {
		s.anchors = append(s.anchors, anchor{from, linked, id})
	}
	if linked != nil || s.files[target] != nil {
		return address(to)
	}
	content, err := fs.ReadFile(s.root, target)
	if err != nil {
		s.wrong = append(s.wrong, fmt.Errorf("%s: the link %s leads to no file: %w", from.Path, to, err))
	}
	s.files[target] = content
	return to
}

// address returns the address for browsers of a page, with an anchor or without. A file that is no page keeps its own.
func address(name string) string {
	name, id, hasID := strings.Cut(name, "#")
	if path.Base(name) == "README.md" {
		name = strings.TrimSuffix(name, "README.md") + "index.md"
	}
	if before, is := strings.CutSuffix(name, ".md"); is {
		name = before + ".html"
	}
	if hasID {
		name += "#" + id
	}
	return name
}

func (s *site) execute() error {
	made, err := template.New("page").Funcs(template.FuncMap{"address": address}).Parse(layout)
	if err != nil {
		return err
	}
	listed := s.contents()
	s.files["llms.txt"] = forPrograms(listed)
	for _, p := range s.pages {
		p.Contents = listed
		var out bytes.Buffer
		if err := made.Execute(&out, p); err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		s.files[address(p.Path)] = out.Bytes()
	}
	return nil
}

// Body returns the text of the page, in which the renderer alone writes HTML.
func (p *page) Body() template.HTML { return template.HTML(p.HTML) }

// Root returns the way from the page to the root of the site.
func (p *page) Root() string { return strings.Repeat("../", strings.Count(p.Path, "/")) }

// Source returns the name of the page as Markdown, which is in the same folder.
func (p *page) Source() string { return path.Base(p.Path) }

// Sections returns the headings of a page that has enough of them for a list.
func (p *page) Sections() []markdown.Heading {
	found := slices.DeleteFunc(slices.Clone(p.Headings), func(h markdown.Heading) bool { return h.Level != 2 })
	if len(found) < 4 {
		return nil
	}
	return found
}

// index writes the data of the search as a script, since browsers let no page read a file of a disk.
func (s *site) index() error {
	type indexed struct {
		URL  string `json:"url"`
		Text string `json:"text"`
	}
	var all []indexed
	for _, p := range s.pages {
		all = append(all, indexed{address(p.Path), p.Text})
	}
	data, err := json.Marshal(all)
	s.files["search-index.js"] = slices.Concat([]byte("searchIn("), data, []byte(");\n"))
	return err
}

// copyLooks takes the styles and the icon of the console.
func (s *site) copyLooks() error {
	for _, name := range []string{"console.css", "docs.css", "icon.svg"} {
		content, err := fs.ReadFile(s.root, "internal/console/static/"+name)
		if err != nil {
			return err
		}
		s.files[name] = content
	}
	return nil
}
