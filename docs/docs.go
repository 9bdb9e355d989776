// Package docs has the pages of the documentation, for programs that show them.
package docs

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.md guides/*.md images/*.svg
var files embed.FS

// Page is a page of the documentation.
type Page struct {
	Name  string // of its file, without folder and ending, such as troubleshooting
	Path  string // of its file, which links of the text begin at
	Title string // its first heading
	Text  string // Markdown
}

// Pages returns all pages, by folder and name.
func Pages() ([]Page, error) {
	var all []Page
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		all = append(all, Page{Name: strings.TrimSuffix(path.Base(name), ".md"), Path: name, Title: title, Text: string(text)})
		return nil
	})
	return all, err
}

// Drawing returns a drawn picture of the pages, as SVG. name is the name of its file, such as outage.svg.
func Drawing(name string) ([]byte, error) { return files.ReadFile("images/" + name) }
