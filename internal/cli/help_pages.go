package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/docs"
)

const (
	pagesTopic = "docs"   // lists the pages
	contents   = "README" // the page with the list for readers
)

// addPages makes each page of the documentation a topic of help, and returns the pages by the names of
// the topics. These are in one list, and not in the help of the command, which would be twice as long.
func addPages(root *cobra.Command) []docs.Page {
	pages, err := docs.Pages()
	if err != nil { // the pages are in the program
		panic(err)
	}
	pages = slices.DeleteFunc(pages, func(p docs.Page) bool { return p.Name == contents })
	list := &cobra.Command{Use: pagesTopic, Short: "The pages of the documentation, by topic"}
	for i, page := range pages {
		if command, _, err := root.Find([]string{page.Name}); err == nil && command != root {
			pages[i].Name += "-page"
		}
		topic := &cobra.Command{Use: pages[i].Name, Short: page.Title, Hidden: true}
		topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), page.Text) })
		root.AddCommand(topic)
	}
	list.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writePages(cmd.OutOrStdout(), pages) })
	root.AddCommand(list)
	return pages
}

// pagesWith names the pages that have a word, at most five: those first that have it in headings, and often.
func pagesWith(pages []docs.Page, word string) []string {
	plain := func(text string) string { return strings.ReplaceAll(strings.ToLower(text), "-", " ") }
	weights := map[string]int{}
	for _, page := range pages {
		for line := range strings.Lines(page.Text) {
			count := strings.Count(plain(line), plain(word))
			if strings.HasPrefix(line, "#") {
				count *= 10
			}
			weights[page.Name] += count
		}
	}
	maps.DeleteFunc(weights, func(_ string, weight int) bool { return weight == 0 })
	names := slices.SortedFunc(maps.Keys(weights), func(a, b string) int { return cmp.Or(weights[b]-weights[a], strings.Compare(a, b)) })
	return names[:min(len(names), 5)]
}

func writePages(out io.Writer, pages []docs.Page) {
	width := 0
	for _, page := range pages {
		width = max(width, len(page.Name))
	}
	var b strings.Builder
	b.WriteString("\"watership help TOPIC\" prints a page as Markdown:\n\n")
	for _, page := range pages {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, page.Name, page.Title)
	}
	fmt.Fprint(out, b.String())
}
