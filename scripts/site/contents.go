package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

const contentsPage = "docs/README.md" // lists the pages for readers

// part is a part of the list of pages.
type part struct {
	Title string
	Links []link
}

type link struct{ Text, Path string } // Path begins at the root

var linkInText = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)

// contents has the titles of pages, and the words of links to parts of pages.
func (s *site) contents() (found []part) {
	for section := range strings.SplitSeq(s.page(contentsPage).Text, "\n## ") {
		title, items, _ := strings.Cut(section, "\n")
		p := part{Title: title}
		for _, l := range linkInText.FindAllStringSubmatch(items, -1) {
			to := link{l[1], path.Join(path.Dir(contentsPage), l[2])}
			if linked := s.page(to.Path); linked != nil {
				to.Text = linked.Title
			}
			p.Links = append(p.Links, to)
		}
		found = append(found, p)
	}
	return found[1:] // without what stands before the first part
}

// forPrograms returns llms.txt, which lists the pages as Markdown for programs.
func forPrograms(contents []part) []byte {
	var b strings.Builder
	b.WriteString("# Watership\n\n> Watership records every message of a RabbitMQ system in Elasticsearch or SQLite, retries what fails, " +
		"sets aside what cannot succeed, and replays any of it. These are its pages as Markdown.\n")
	for _, p := range contents {
		fmt.Fprintf(&b, "\n## %s\n\n", p.Title)
		for _, l := range p.Links {
			fmt.Fprintf(&b, "- [%s](%s)\n", l.Text, l.Path)
		}
	}
	return []byte(b.String())
}
