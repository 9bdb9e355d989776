package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/quarantine"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
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
			return from.with(cmd, func(ctx context.Context, a *system.System) error {
				node, err := filter.node(a, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				return to.quarantined(ctx, a, eventstore.Selection{Query: quarantine.Query(node), Limit: limit, WithoutBody: true}, format)
			})
		},
	}
	filter.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "maximum number of events; 0: no limit")
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

func (p printer) quarantined(ctx context.Context, a *system.System, sel eventstore.Selection, format outputFormat) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	w := newEventWriter(a, p, format, quarantineFields(), true)
	found, err := p.write(w, store.Events(ctx, sel))
	if err == nil && found == 0 {
		err = store.Check(ctx) // may be the reason
	}
	if err != nil || found > 0 {
		return err
	}
	return p.printNothingFound(format, "[]")
}

// quarantineFields returns the columns of `quarantine list`.
func quarantineFields() []field {
	colours := map[string]terminal.Colour{string(schemas.Poisoned): terminal.Red}
	return []field{
		{terminal.Column{Title: "TIME", Fixed: true, Times: true}, "@timestamp", func(e schemas.Event) string { return terminal.Time(e.Time) }},
		{terminal.Column{Title: "ACTION", Fixed: true, Colours: colours}, "watership.quarantined_action", func(e schemas.Event) string { return string(e.QuarantinedAction) }},
		{terminal.Column{Title: "EXCHANGE", DropOrder: 2}, "messaging.destination.name", exchangeOf},
		{terminal.Column{Title: "QUEUE", DropOrder: 1}, "watership.queue", func(e schemas.Event) string { return e.Queue }},
		{terminal.Column{Title: "EVENT"}, "event.id", func(e schemas.Event) string { return e.EventID }},
		{terminal.Column{Title: "REASON"}, "error.message", func(e schemas.Event) string { return e.Failure.Message }},
	}
}

// rewrite holds the arguments of `quarantine rewrite`.
type rewrite struct {
	terminal.Streams
	filter      filter
	dryRun, yes bool
}

func newQuarantineRewrite(from *settings) *cobra.Command {
	var r rewrite
	cmd := &cobra.Command{
		Use:   "rewrite [QUERY]",
		Short: "Write events in quarantine again",
		Long: `Write events in quarantine again, all of them or those that match a query, after the
cause is mended: each gets its whole document, with the same id, time and sequence, in place
of the quarantined one. Nothing is sent. What the store refuses again stays in quarantine
with the new reason, and the command fails. It can be repeated.

In Elasticsearch a mapping applies to new indices: mend the template, then roll over the
stream. The login needs the privileges 'index' and 'delete' for this command.

A preview is shown before anything is written. A terminal prompts for confirmation; a
script needs --yes.`,
		Example: `  watership quarantine rewrite --dry-run
  watership quarantine rewrite 'action: poisoned' --since 7d --yes`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: from.completeQuery,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Streams = streamsOf(cmd)
			if !r.dryRun && !r.yes && (!terminal.IsTerminal(r.In) || r.filter.dsl == "-") {
				return usagef("rewrite asks first, and there is no terminal to ask: give --yes, or --dry-run to look first")
			}
			return from.with(cmd, func(ctx context.Context, a *system.System) error {
				node, err := r.filter.node(a, strings.Join(args, " "), r.In)
				if err != nil {
					return err
				}
				return r.run(ctx, a, node)
			})
		},
	}
	r.filter.addFlags(cmd)
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "print the preview and stop")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "skip the confirmation prompt")
	return cmd
}

func (r rewrite) run(ctx context.Context, a *system.System, node kql.Node) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	finder := quarantine.Finder{Store: store, Owns: a.Topology().Owns}
	plan, err := finder.Plan(ctx, node)
	if err != nil {
		return err
	}
	if plan.Total == 0 {
		if err := store.Check(ctx); err != nil {
			return err
		}
	}
	err = writeRewritePlan(r.Out, plan)
	if outputClosed(err) && !r.dryRun {
		err = fmt.Errorf("cannot print the preview, so nothing was written: %v", err)
	}
	if err != nil {
		return err
	}
	if agreed, err := r.confirm(ctx, plan); !agreed {
		return err
	}
	bar := terminal.NewBar(r.Err, plan.Total)
	rewriting := quarantine.Rewrite{Finder: finder, Format: a.DocumentFormat(), Progress: bar.Show}
	err = rewriting.Run(ctx, node)
	bar.End()
	fmt.Fprintf(r.Out, "wrote %s of %d\n", wording.Plural(rewriting.Written, "event"), plan.Total)
	if rewriting.Refused == 0 {
		return err
	}
	return errors.Join(err, fmt.Errorf("the store refused %s again:\n  %s", wording.Plural(rewriting.Refused, "event"), refusalLines(rewriting.Refused, rewriting.Reasons)))
}

func writeRewritePlan(out io.Writer, plan quarantine.Plan) error {
	var page bytes.Buffer
	fmt.Fprintf(&page, "%s to write again\n", wording.Plural(plan.Total, "event"))
	for _, action := range slices.Sorted(maps.Keys(plan.Actions)) {
		fmt.Fprintf(&page, "  %6d  %s\n", plan.Actions[action], terminal.Cell(string(action), 60))
	}
	if plan.NoEvents > 0 {
		fmt.Fprintf(&page, "  %6d  left out: in the log, and no event\n", plan.NoEvents)
	}
	if plan.Unreadable > 0 {
		fmt.Fprintf(&page, "  %6d  left out: the document cannot be read\n", plan.Unreadable)
	}
	_, err := out.Write(page.Bytes())
	return err
}

func (r rewrite) confirm(ctx context.Context, plan quarantine.Plan) (bool, error) {
	if r.dryRun || plan.Total == 0 {
		return false, nil
	}
	if r.yes {
		return true, nil
	}
	yes, err := r.Ask(ctx, fmt.Sprintf("Write %s again?", wording.Plural(plan.Total, "event")))
	if err == nil && !yes {
		err = errors.New("nothing was written")
	}
	return yes, err
}
