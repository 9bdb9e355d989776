package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newFailed(from *settings) *cobra.Command {
	var filter filter
	var format outputFormat
	var list failedList
	cmd := &cobra.Command{
		Use:   "failed [QUERY]",
		Short: "List unresolved failures, grouped by queue and error",
		Long: `List messages that failed permanently and were not handled or discarded since. They
are grouped by queue, class, error type and error message, with ids and numbers
replaced by #.

A failure is resolved when a replay of it is handled, or when it is discarded. If
the consumer of the queue does not report to Watership, the replay itself resolves
it. A message whose replay failed again is listed once, with the newer failure.

Each group has a short name, by which it is assigned, muted, noted and resolved. A group
that fails again after it was resolved has regressed. Muted groups are left out, but
counted with --by.`,
		Example: `  watership failed
  watership failed --by headers.tenant,queue
  watership failed mute k3f7q2xa --for 2h --reason 'the supplier is closed'
  watership failed 'queue: orders' --since 12h -o json
  watership failed discard 'queue: orders and error.type: validation' --reason 'test orders' --yes`,
		Args: queryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("by") && strings.Trim(strings.Join(list.by, ""), " ") == "":
				return usagef("--by: expected fields, such as headers.tenant,queue")
			case len(list.by) > 0 && list.muted:
				return usagef("--by and --muted cannot be combined: muted groups are counted with --by")
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				sel, err := filter.selection(sys, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				return failurePrinter{from.printer(cmd)}.failed(ctx, sys, sel.Query, list, format)
			})
		},
	}
	filter.addFlags(cmd)
	cmd.Flags().StringSliceVar(&list.by, "by", nil, "group by the values of fields, such as headers.tenant,queue")
	cmd.Flags().BoolVar(&list.muted, "muted", false, "list muted groups, too")
	format.addFlag(cmd, "table", "json", "ndjson")
	cmd.AddCommand(newDiscard(from), newFailedRetry(from), newFailedEdit(from), newFailedShow(from), newFailedWhy(from), newFailedResolve(from))
	cmd.AddCommand(newFailedAssign(from), newFailedUnassign(from), newFailedMute(from), newFailedUnmute(from), newFailedNote(from))
	return cmd
}

// failedList holds the flags of the list of failures.
type failedList struct {
	by    []string // fields; nil: the groups that can be triaged
	muted bool     // list groups that are muted, too
}

// failurePrinter prints groups of failures.
type failurePrinter struct{ printer }

func (p failurePrinter) failed(ctx context.Context, sys backend, node kql.Node, list failedList, format outputFormat) error {
	if len(list.by) > 0 {
		return p.failedBy(ctx, sys, node, list.by, format)
	}
	found, err := failureGroups(ctx, sys, node, list.muted)
	if err != nil {
		return err
	}
	if len(found.Groups) > 0 || !format.is("table") {
		return writeItems(p.Out, format, found.Groups, func() error { return p.groups(found) })
	}
	if found.Muted == 0 {
		return p.printNothingFound(format, "[]")
	}
	return p.mutedGroups(found.Muted)
}

// failureGroups returns the groups of the unresolved failures that match a query.
func failureGroups(ctx context.Context, sys backend, node kql.Node, withMuted bool) (found failures.GroupPage, err error) {
	in := failures.GroupsInput{QueryFilter: queryFilter(node), Muted: withMuted, Limit: wholePage}
	found.Groups = []failures.FailureGroup{}
	return found, eachPage(func(cursor string) (string, error) {
		in.Cursor = cursor
		page, err := failures.GroupFailures.Call(ctx, sys, in)
		found.Groups, found.Muted = append(found.Groups, page.Body.Groups...), page.Body.Muted
		return page.Body.Cursor, err
	})
}

func (p failurePrinter) groups(found failures.GroupPage) error {
	columns := failedColumns(found.Groups)
	t := terminal.NewTable(p.Out, p.screen, columns...)
	total := 0
	for _, g := range found.Groups {
		total += g.Count
		row := []string{strconv.Itoa(g.Count), g.ID, g.Queue, g.Class, g.Type, g.Group.Group, terminal.SecondCell(g.First), terminal.SecondCell(g.Last), g.Example}
		if len(columns) > len(row) {
			row = append(row, groupState(g))
		}
		if err := t.Row(row...); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := p.printf("%s in %s", wording.Plural(total, "failure"), wording.Plural(len(found.Groups), "group")); err != nil || found.Muted == 0 {
		return err
	}
	return p.mutedGroups(found.Muted)
}

func (p failurePrinter) mutedGroups(n int) error {
	if n == 1 {
		return p.printf("1 group is muted: --muted shows it")
	}
	return p.printf("%d groups are muted: --muted shows them", n)
}

// groupState describes the assignee, the mute and the notes of a group.
func groupState(g failures.FailureGroup) string {
	var parts []string
	if g.Regressed {
		parts = append(parts, "regressed")
	}
	if g.Muted != nil {
		parts = append(parts, "muted"+muteEnd(g.Muted))
	}
	if g.Assignee != "" {
		parts = append(parts, g.Assignee)
	}
	if n := len(g.Notes); n > 0 {
		parts = append(parts, wording.Plural(n, "note"))
	}
	return strings.Join(parts, ", ")
}

// muteEnd reports when a mute ends.
func muteEnd(m *failures.Mute) string {
	text := ""
	if m.Until != nil {
		text = " until " + terminal.Second(*m.Until)
	}
	if m.Count > 0 {
		text += fmt.Sprintf(" for %d more", m.Count-m.Failures)
	}
	return text
}

// failedColumns returns the columns of groups; the state only if a group has one.
func failedColumns(groups []failures.FailureGroup) []terminal.Column {
	columns := []terminal.Column{
		{Title: "COUNT", Fixed: true, Right: true},
		{Title: "GROUP", Fixed: true},
		{Title: "QUEUE"},
		{Title: "CLASS", DropOrder: 3},
		{Title: "TYPE", DropOrder: 1},
		{Title: "ERROR"},
		{Title: "FIRST", Fixed: true, Times: true, DropOrder: 4},
		{Title: "LAST", Fixed: true, Times: true, DropOrder: 2},
		{Title: "EXAMPLE"},
	}
	if slices.ContainsFunc(groups, func(g failures.FailureGroup) bool { return groupState(g) != "" }) {
		columns = append(columns, terminal.Column{Title: "STATE"})
	}
	return columns
}
