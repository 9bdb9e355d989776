package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
)

// discard holds the arguments of `failed discard`.
type discard struct {
	terminal.Streams
	filter filter
	file   string // of ids; "": none
	ids    []string
	reason string
	yes    bool
}

func newDiscard(from *settings) *cobra.Command {
	var d discard
	cmd := &cobra.Command{
		Use:   "discard [QUERY]",
		Short: "Mark failures as resolved, with a reason",
		Long: `Mark failures as resolved: the unresolved failures that match a query, or the ones
listed by id. Nothing is deleted. Each failure gets an event with the operator, the
time and the reason, and can still be replayed.`,
		Example: `  watership failed discard 'queue: orders and error.type: validation' --reason 'test orders' --yes
  watership failed discard --ids paid.txt --reason 'paid by hand' --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Streams = streamsOf(cmd)
			if err := d.validate(args); err != nil {
				return err
			}
			return from.with(cmd, func(ctx context.Context, a *app.App) error {
				node, err := d.filter.node(a, strings.Join(args, " "), d.In)
				if err != nil {
					return err
				}
				if d.file != "" {
					if d.ids, err = readIDs(d.file, d.In); err != nil {
						return err
					}
				}
				return d.run(ctx, a, node)
			})
		},
	}
	d.filter.addFlags(cmd)
	addNonEmpty(cmd.Flags(), &d.file, "ids", "file with message or event ids, one per line; - reads standard input")
	cmd.Flags().StringVar(&d.reason, "reason", "", "why (required)")
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "skip the confirmation prompt")
	return cmd
}

func (d discard) validate(args []string) error {
	switch {
	case strings.TrimSpace(d.reason) == "":
		return usagef("--reason is required")
	case strings.TrimSpace(strings.Join(args, "")) == "" && d.file == "" && d.filter.dsl == "":
		return usagef("expected a query or --ids; '*' discards every failure there is")
	case d.file == "-" && d.filter.dsl == "-":
		return usagef("--ids and --dsl cannot both be standard input: give one of them a file")
	case !d.yes && (!terminal.IsTerminal(d.In) || d.file == "-" || d.filter.dsl == "-"):
		return usagef("discard asks first, and there is no terminal to ask: give --yes")
	}
	return nil
}

func (d discard) run(ctx context.Context, a *app.App, node kql.Node) error {
	failures, err := a.Failures(ctx)
	if err != nil {
		return err
	}
	ids, err := failures.OpenByID(ctx, node, d.ids)
	if err != nil {
		return err
	}
	if err := printUnknownIDs(ctx, a, d.Out, d.ids); err != nil {
		return err
	}
	if len(ids) == 0 {
		return errors.New("no unresolved failure matches")
	}
	if agreed, err := d.confirm(ctx, len(ids)); !agreed {
		return err
	}
	discarded, err := a.Discard(ctx, ids, app.Decision{Operator: operator(), Reason: d.reason})
	if discarded.Failures > 0 {
		fmt.Fprintf(d.Out, "discarded %s\n", wording.Plural(discarded.Failures, "failure"))
	}
	if err != nil {
		return err
	}
	if err := printParkedCopies(ctx, a, d.Out, discarded.Queues); err != nil {
		return err
	}
	missing, err := a.AwaitDiscarded(ctx, ids)
	if err == nil && missing > 0 {
		fmt.Fprintf(d.Out, "the store does not have %s of these yet: run watership serve\n", wording.Plural(missing, "event"))
	}
	return err
}

func (d discard) confirm(ctx context.Context, failures int) (bool, error) {
	if d.yes {
		return true, nil
	}
	yes, err := d.Ask(ctx, fmt.Sprintf("Discard %s?", wording.Plural(failures, "failure")))
	if err == nil && !yes {
		err = errors.New("nothing was discarded")
	}
	return yes, err
}

// printParkedCopies prints the parking queues of some queues whose failures are resolved,
// since no command takes the copies out of them.
func printParkedCopies(ctx context.Context, a *app.App, out io.Writer, queues []string) error {
	parked, err := a.ParkedCopies(ctx, queues)
	for _, p := range parked {
		fmt.Fprintf(out, "queue %s keeps %s: delete them at the broker when nobody needs them\n",
			terminal.Cell(p.Queue, 120), wording.Plural(p.Messages, "parked message"))
	}
	return err
}
