package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/quarantine"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

func newQuarantine(from *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quarantine",
		Short: "List events that the store refused, and write them again",
		Long: `An event whose document the store refuses is in quarantine: it is kept whole, and can be
replayed, but its headers and its body cannot be searched. A query for its action finds it.`,
		Args: rejectUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newQuarantineList(from), newQuarantineRewrite(from))
	return cmd
}

func newQuarantineList(from *settings) *cobra.Command {
	var filter filter
	var format outputFormat
	var limit int
	cmd := &cobra.Command{
		Use:   "list [QUERY]",
		Short: "List events in quarantine, newest first",
		Long: `List events in quarantine, newest first, with the action of the event and the reason of
the store. Messages in the log that are no events are in quarantine, too.`,
		Example: `  watership quarantine list
  watership quarantine list 'action: poisoned and queue: orders' --since 1d -o ndjson`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: from.completeQuery,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit %d: expected 0 (no limit) or more", limit)
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				node, err := filter.node(sys, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				return to.quarantined(ctx, sys, eventstore.Selection{Query: quarantine.Query(node), Limit: limit, WithoutBody: true}, format)
			})
		},
	}
	filter.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "maximum number of events; 0: no limit")
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

func (p printer) quarantined(ctx context.Context, sys backend, sel eventstore.Selection, format outputFormat) error {
	w := newEventWriter(sys, p, format, quarantineFields(), true)
	found, err := p.write(w, sys.Events(ctx, sel))
	if err != nil || found > 0 {
		return err
	}
	return p.printNothingFound(format, "[]")
}

// quarantineFields returns the columns of `quarantine list`.
func quarantineFields() []field {
	colours := map[string]terminal.Colour{string(schemas.Poisoned): terminal.Red}
	return []field{
		{terminal.Column{Title: "TIME", Fixed: true, Times: true}, "@timestamp", func(e schemas.Event) string { return terminal.TimeCell(e.Time) }},
		{terminal.Column{Title: "ACTION", Fixed: true, Colours: colours}, "watership.quarantined_action", func(e schemas.Event) string { return string(e.QuarantinedAction) }},
		{terminal.Column{Title: "EXCHANGE", DropOrder: 2}, "messaging.destination.name", exchangeOf},
		{terminal.Column{Title: "QUEUE", DropOrder: 1}, "watership.queue", func(e schemas.Event) string { return e.Queue }},
		{terminal.Column{Title: "EVENT"}, "event.id", func(e schemas.Event) string { return e.EventID }},
		{terminal.Column{Title: "REASON"}, "error.message", func(e schemas.Event) string { return e.Failure.Message }},
	}
}

func newQuarantineRewrite(from *settings) *cobra.Command {
	var a action
	cmd := &cobra.Command{
		Use:   "rewrite [QUERY]",
		Short: "Write events in quarantine again",
		Long: `Write events in quarantine again, all of them or those that match a query or are listed
by id, after the cause is mended: each gets its whole document, with the same id, time and
sequence, in place of the quarantined one. Nothing is sent. What the store refuses again
stays in quarantine with the new reason, and the command fails. It can be repeated.

In Elasticsearch a mapping applies to new indices: mend the template, then roll over the
stream. The login needs the privileges 'index' and 'delete' for this command: that of
serve with --server. An audited event has the operator and the reason, for which RabbitMQ
must be reachable.

A preview is shown before anything is written. A terminal prompts for confirmation; a
script needs --yes.`,
		Example: `  watership quarantine rewrite --dry-run
  watership quarantine rewrite 'action: poisoned' --since 7d --expect 12 --yes`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: from.completeQuery,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.read(from, cmd, "rewrite"); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return a.rewrite(ctx, sys, strings.Join(args, " ")) })
		},
	}
	a.addSelection(cmd)
	a.addGuard(cmd)
	a.addFlags(cmd, "why")
	return cmd
}

func (a *action) rewrite(ctx context.Context, sys backend, query string) (err error) {
	var in quarantine.RewriteInput
	if in.Body.Choice, err = a.choice(sys, query, false); err != nil {
		return err
	}
	var last quarantine.Rewritten
	return a.operate(ctx, &in.Body.Choice, &in.Body.Bounds, actionTexts{
		unit:     "event",
		preview:  func(answer) string { return rewritePlan(last) },
		question: func(answer) string { return fmt.Sprintf("Write %s again?", wording.Plural(last.Matched, "event")) },
		result: func(done answer) string {
			if done.Matched == 0 {
				return ""
			}
			return fmt.Sprintf("wrote %s of %d\n", wording.Plural(done.Done, "event"), done.Matched)
		},
	}, func(ctx context.Context) (answer, error) {
		out, err := quarantine.RewriteQuarantine.Call(ctx, sys, in)
		if last = out.Body; last.Refused > 0 {
			err = errors.Join(err, fmt.Errorf("the store refused %s again:\n  %s", wording.Plural(last.Refused, "event"), refusalLines(last.Refused, last.Reasons)))
		}
		return answer{last.Outcome, nil, last}, err
	})
}

func rewritePlan(plan quarantine.Rewritten) string {
	var page strings.Builder
	fmt.Fprintf(&page, "%s to write again\n", wording.Plural(plan.Matched, "event"))
	for _, action := range slices.Sorted(maps.Keys(plan.Actions)) {
		fmt.Fprintf(&page, "  %6d  %s\n", plan.Actions[action], terminal.Cell(string(action), 60))
	}
	if n := plan.LeftOut[quarantine.NoEvent]; n > 0 {
		fmt.Fprintf(&page, "  %6d  left out: in the log, and no event\n", n)
	}
	if n := plan.LeftOut[quarantine.Unreadable]; n > 0 {
		fmt.Fprintf(&page, "  %6d  left out: the document cannot be read\n", n)
	}
	return page.String()
}
