package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/render/wording"
)

// discard holds the arguments of `failed discard`.
type discard struct {
	terminal.Streams
	filter filter
	file   string // of ids; "": none
	ids    []string
	reason string
	dryRun bool
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
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				node, err := d.filter.node(sys, strings.Join(args, " "), d.In)
				if err != nil {
					return err
				}
				if d.file != "" {
					if d.ids, err = readIDs(d.file, d.In); err != nil {
						return err
					}
				}
				return d.run(ctx, sys, node)
			})
		},
	}
	d.filter.addFlags(cmd)
	addNonEmpty(cmd.Flags(), &d.file, "ids", "file with message or event ids, one per line; - reads standard input")
	cmd.Flags().StringVar(&d.reason, "reason", "", "why (required)")
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "count the failures and stop")
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "skip the confirmation prompt")
	return cmd
}

func (d discard) validate(args []string) error {
	switch {
	case strings.TrimSpace(d.reason) == "" && !d.dryRun:
		return usagef("--reason is required")
	case strings.TrimSpace(strings.Join(args, "")) == "" && d.file == "" && d.filter.dsl == "":
		return usagef("expected a query or --ids; '*' discards every failure there is")
	case d.file == "-" && d.filter.dsl == "-":
		return usagef("--ids and --dsl cannot both be standard input: give one of them a file")
	case !d.yes && !d.dryRun && (!terminal.IsTerminal(d.In) || d.file == "-" || d.filter.dsl == "-"):
		return usagef("discard asks first, and there is no terminal to ask: give --yes")
	}
	return nil
}

func (d discard) run(ctx context.Context, sys backend, node kql.Node) error {
	found, act, err := previewDiscard(ctx, sys, node, d.ids, d.reason)
	if err != nil {
		return err
	}
	if err := printUnknownIDs(d.Out, found.Unknown); err != nil {
		return err
	}
	if found.Matched == 0 {
		return errors.New("no unresolved failure matches")
	}
	if err := printQueues(d.Out, "failed at", found.Queues); err != nil {
		return err
	}
	if d.dryRun {
		return nil
	}
	if agreed, err := d.confirm(ctx, found.Matched); !agreed {
		return err
	}
	done, err := failures.DiscardFailures.Call(ctx, sys, act)
	if n := done.Body.Discarded; n > 0 {
		fmt.Fprintf(d.Out, "discarded %s\n", wording.Plural(n, "failure"))
	}
	printParkedCopies(d.Out, done.Body.Parked...)
	printMissing(d.Out, done.Body.Missing, err)
	return err
}

// previewDiscard returns the failures that a discard finds, and the request that discards these,
// whatever fails after them.
func previewDiscard(ctx context.Context, sys backend, node kql.Node, ids []string, reason string) (found failures.Discarded, act failures.DiscardInput, err error) {
	if node, err = client.AbsoluteTimes(node); err != nil {
		return found, act, err
	}
	if act.Body.Filter, act.Body.DSL, err = bodyFilter(sys, node, len(ids) > 0); err != nil {
		return found, act, err
	}
	act.Body.IDs, act.Body.Reason, act.Body.DryRun = ids, reason, true
	preview, err := failures.DiscardFailures.Call(ctx, sys, act)
	if err != nil {
		return found, act, err
	}
	found = preview.Body
	act.Body.DryRun, act.Body.Expect = false, &found.Matched
	act.Body.Filter, act.Body.DSL, err = bodyFilter(sys, kql.And{node, history.UpTo(found.UpTo)}, true)
	return found, act, err
}

// printMissing prints the number of events of an action that the store does not have yet.
func printMissing(out io.Writer, missing int, err error) {
	if err == nil && missing > 0 {
		fmt.Fprintf(out, "the store does not have %s of these yet: run watership serve\n", wording.Plural(missing, "event"))
	}
}

// printQueues prints the number of messages of each queue. Without it nothing is changed: the user
// relies on the preview.
func printQueues(out io.Writer, verb string, messages map[string]int) error {
	for _, queue := range slices.Sorted(maps.Keys(messages)) {
		if _, err := fmt.Fprintf(out, "  %6d  %s queue %s\n", messages[queue], verb, terminal.Cell(queue, 120)); err != nil {
			return fmt.Errorf("cannot print the preview, so nothing was changed: %w", err)
		}
	}
	return nil
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
func printParkedCopies(out io.Writer, parked ...failures.ParkedCopies) {
	for _, p := range parked {
		fmt.Fprintf(out, "queue %s keeps %s: delete them at the broker when nobody needs them\n",
			terminal.Cell(p.Queue, 120), wording.Plural(p.Messages, "parked message"))
	}
}
