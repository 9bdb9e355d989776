package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/searches"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newSearches(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "searches",
		Short: "List, save, rename and delete searches that the console offers",
		Long: `A saved search is a page of the console with its query and columns, under a name that
everybody sees. It is a record in the store; in Elasticsearch, in the index STREAM.records.`,
		Args: rejectUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSearchesList(from), newSearchesSave(from), newSearchesRename(from), newSearchesDelete(from))
	return cmd
}

func newSearchesList(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the saved searches",
		Example: "  watership searches list\n  watership searches list -o json",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				found, err := searches.ListSearches.Call(ctx, sys, struct{}{})
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				return writeItems(to.Out, format, found.Body.Searches, func() error { return to.searches(found.Body.Searches) })
			})
		},
	}
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

func (p printer) searches(list []searches.Search) error {
	if len(list) == 0 {
		return p.printf("there are no saved searches")
	}
	t := terminal.NewTable(p.Out, p.screen, terminal.Column{Title: "NAME"}, terminal.Column{Title: "PAGE", Fixed: true}, terminal.Column{Title: "QUERY"},
		terminal.Column{Title: "BY", DropOrder: 2}, terminal.Column{Title: "SAVED", Fixed: true, Times: true, DropOrder: 1})
	for _, s := range list {
		page, _ := url.Parse(s.Address) // it was checked when it was saved
		if page == nil {
			page = &url.URL{}
		}
		if err := t.Row(wording.OneLine(s.Name), page.Path, wording.OneLine(s.Query), wording.OneLine(s.By), terminal.SecondCell(s.At)); err != nil {
			return err
		}
	}
	return t.Flush()
}

func newSearchesSave(from *settings) *cobra.Command {
	page, fields := "messages", []string{}
	cmd := &cobra.Command{
		Use:     "save NAME QUERY",
		Short:   "Save a search under a name",
		Long:    "Save a search under a name. A search with the same name is replaced.",
		Example: "  watership searches save 'Failures of acme' 'headers.tenant: acme' --page failures",
		Args:    exactArgs(2, "a name and a query"),
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := url.Values{"q": {args[1]}}
			for _, name := range fields {
				asked.Add("fields", name)
			}
			in := searches.SaveInput{Body: searches.NewSearch{Name: args[0], Address: "/" + page + "?" + asked.Encode()}}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				if _, err := sys.ParseQuery(args[1]); err != nil {
					return err
				}
				saved, err := searches.SaveSearch.Call(ctx, sys, in)
				if err != nil {
					return err
				}
				return from.printer(cmd).printf("saved as %s", terminal.Cell(saved.Body.Name, 100))
			})
		},
	}
	cmd.Flags().StringVar(&page, "page", page, "page of the console: messages, failures or waiting")
	cmd.Flags().StringSliceVar(&fields, "fields", nil, "columns of the list of messages besides, such as headers.tenant")
	return cmd
}

func newSearchesRename(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:     "rename NAME NEW",
		Short:   "Give a saved search another name",
		Example: "  watership searches rename 'Failures of acme' acme",
		Args:    exactArgs(2, "the name of a saved search, and another name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSearch(cmd, args[0], func(ctx context.Context, sys backend, id string) error {
				renamed, err := searches.RenameSearch.Call(ctx, sys, searches.RenameInput{ID: id, Body: searches.NewName{Name: args[1]}})
				if err != nil {
					return err
				}
				return from.printer(cmd).printf("%s is %s now", terminal.Cell(args[0], 100), terminal.Cell(renamed.Body.Name, 100))
			})
		},
	}
}

func newSearchesDelete(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a saved search",
		Example: "  watership searches delete acme",
		Args:    exactArgs(1, "the name of a saved search"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSearch(cmd, args[0], func(ctx context.Context, sys backend, id string) error {
				if _, err := searches.DeleteSearch.Call(ctx, sys, searches.DeleteInput{ID: id}); err != nil {
					return err
				}
				return from.printer(cmd).printf("%s is deleted", terminal.Cell(args[0], 100))
			})
		},
	}
}

// withSearch calls do with the id of the saved search with a name.
func (s *settings) withSearch(cmd *cobra.Command, name string, do func(ctx context.Context, sys backend, id string) error) error {
	return s.withSystem(cmd, func(ctx context.Context, sys backend) error {
		found, err := searches.ListSearches.Call(ctx, sys, struct{}{})
		if err != nil {
			return err
		}
		list := found.Body.Searches
		if i := slices.IndexFunc(list, func(s searches.Search) bool { return s.Name == name }); i >= 0 {
			return do(ctx, sys, list[i].ID)
		}
		return usagef("there is no saved search %s: see 'watership searches list'", fmt.Sprintf("%q", name))
	})
}
