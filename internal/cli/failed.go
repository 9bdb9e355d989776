package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
)

func newFailed(from *settings) *cobra.Command {
	var filter filter
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "failed [QUERY]",
		Short: "List unresolved failures, grouped by queue and error",
		Long: `List messages that failed permanently and were not handled or discarded since. They
are grouped by queue, class, error type and error message, with ids and numbers
replaced by #.

A failure is resolved when a replay of it is handled, or when it is discarded. If
the consumer of the queue does not report to Watership, the replay itself resolves
it. A message whose replay failed again is listed once, with the newer failure.`,
		Example: `  watership failed
  watership failed 'queue: orders' --since 12h -o json
  watership failed discard 'queue: orders and error.type: validation' --reason 'test orders' --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys system) error {
				sel, err := filter.selection(sys, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				return printer{streamsOf(cmd), from.screen(cmd.OutOrStdout())}.failed(ctx, sys, sel.Query, format)
			})
		},
	}
	filter.addFlags(cmd)
	format.addFlag(cmd, "table", "json", "ndjson")
	cmd.AddCommand(newDiscard(from), newFailedRetry(from), newFailedEdit(from))
	return cmd
}

func (p printer) failed(ctx context.Context, sys system, node kql.Node, format outputFormat) error {
	if err := sys.OpenStore(ctx); err != nil {
		return err
	}
	groups, err := sys.Groups(ctx, node)
	if err != nil {
		return err
	}
	if len(groups) == 0 && format.is("table") {
		return p.printNothingFound(ctx, sys.Check, format, "[]")
	}
	return writeItems(p.Out, format, groups, func() error { return p.groups(groups) })
}

func (p printer) groups(groups []*history.Group) error {
	t := terminal.NewTable(p.Out, p.screen, failedColumns()...)
	total := 0
	for _, g := range groups {
		total += g.Count
		if err := t.Row(strconv.Itoa(g.Count), g.Queue, g.Class, g.Type, g.Group, toTheSecond(g.First), toTheSecond(g.Last), g.Example); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return p.printf("%s in %s", wording.Plural(total, "failure"), wording.Plural(len(groups), "group"))
}

func toTheSecond(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func failedColumns() []terminal.Column {
	return []terminal.Column{
		{Title: "COUNT", Fixed: true, Right: true},
		{Title: "QUEUE"},
		{Title: "CLASS", DropOrder: 3},
		{Title: "TYPE", DropOrder: 1},
		{Title: "ERROR"},
		{Title: "FIRST", Fixed: true, DropOrder: 4},
		{Title: "LAST", Fixed: true, DropOrder: 2},
		{Title: "EXAMPLE"},
	}
}
