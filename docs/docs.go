// Package docs has the pages of the documentation, for programs that print them.
package docs

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.md guides/*.md
var pages embed.FS

// Page is a page of the documentation.
type Page struct {
	Name  string // of its file, without folder and ending, such as troubleshooting
	Title string // its first heading
	Text  string // Markdown
}

// Pages returns all pages, by folder and name.
func Pages() ([]Page, error) {
	var all []Page
	err := fs.WalkDir(pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := pages.ReadFile(name)
		if err != nil {
			return err
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		all = append(all, Page{Name: strings.TrimSuffix(path.Base(name), ".md"), Title: title, Text: string(text)})
		return nil
	})
	return all, err
}
