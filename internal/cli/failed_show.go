package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
)

// newFailedShow returns `failed show`.
func newFailedShow(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "show GROUP",
		Short:   "Show a group of failures, with the decisions about it",
		Example: "  watership failed show k3f7q2xa",
		Args:    exactArgs(1, "a group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				found, err := failures.GetFailureGroup.Call(ctx, sys, failures.GroupInput{Group: args[0]})
				if err != nil {
					return err
				}
				g := found.Body
				to := failurePrinter{from.printer(cmd)}
				if format.is("json") {
					return terminal.WriteIndentedJSON(to.Out, g)
				}
				return to.group(g)
			})
		},
	}
	format.addFlag(cmd, "text", "json")
	return cmd
}

func (p failurePrinter) group(g failures.FailureGroup) error {
	pair := func(name, value string) {
		if value != "" {
			fmt.Fprintf(p.Out, "%-9s  %s\n", name, terminal.Cell(value, 0))
		}
	}
	pair("group", g.ID)
	pair("queue", g.Queue)
	pair("class", g.Class)
	pair("type", g.Type)
	pair("error", g.Group.Group)
	pair("failures", fmt.Sprint(g.Count))
	if g.Count > 0 {
		pair("first", terminal.Second(g.First))
		pair("last", terminal.Second(g.Last))
		pair("example", g.Example)
	}
	if g.Regressed {
		pair("regressed", "since it was resolved")
	}
	pair("assignee", g.Assignee)
	if m := g.Muted; m != nil {
		pair("muted", fmt.Sprintf("%s by %s: %s", (muteEnd(m) + ",")[1:], m.By, m.Reason))
	}
	if r := g.Resolved; r != nil {
		pair("resolved", fmt.Sprintf("%s by %s: %s", terminal.Second(r.Time), r.By, r.Reason))
	}
	for _, note := range g.Notes {
		pair("note", fmt.Sprintf("%s %s: %s", terminal.Second(note.Time), note.By, note.Text))
	}
	return p.printf("%-9s  %s", "query", g.Query)
}
