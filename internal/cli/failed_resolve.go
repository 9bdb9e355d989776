package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/render/wording"
)

// resolve holds the arguments of `failed resolve`.
type resolve struct {
	terminal.Streams
	filter filter
	query  string
	groups []string
	reason string
	yes    bool
}

// newFailedResolve returns `failed resolve`.
func newFailedResolve(from *settings) *cobra.Command {
	var r resolve
	cmd := &cobra.Command{
		Use:   "resolve [GROUP...]",
		Short: "Resolve groups of failures, with a reason",
		Long: `Discard every unresolved failure of some groups, or those that match --query, and record
that their groups are resolved. A group that fails again after that has regressed. A
group stays open if some of its failures do not match.

Nothing is deleted: each failure can still be replayed.`,
		Example: `  watership failed resolve k3f7q2xa --reason 'fixed in 1.4.2: OPS-12'
  watership failed resolve --query 'queue: orders and error.type: validation' --reason 'test orders' --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Streams, r.groups = streamsOf(cmd), args
			if err := r.validate(); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				node, err := r.filter.node(sys, r.query, r.In)
				if err != nil {
					return err
				}
				return r.run(ctx, sys, node)
			})
		},
	}
	r.filter.addFlags(cmd)
	addNonEmpty(cmd.Flags(), &r.query, "query", "resolve the groups of the failures that match")
	addReason(cmd, &r.reason, "why (required)")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "skip the confirmation prompt")
	return cmd
}

func (r resolve) validate() error {
	switch {
	case strings.TrimSpace(r.reason) == "":
		return usagef("--reason is required")
	case len(r.groups) == 0 && r.query == "" && r.filter.dsl == "":
		return usagef("expected groups or --query; --query '*' resolves every group there is")
	case !r.yes && (!terminal.IsTerminal(r.In) || r.filter.dsl == "-"):
		return usagef("resolve asks first, and there is no terminal to ask: give --yes")
	}
	if err := (failures.Change{Decision: failures.Resolved, Reason: r.reason}).Check(time.Now()); err != nil {
		return usagef("--reason: %w", err)
	}
	return nil
}

func (r resolve) run(ctx context.Context, sys backend, node kql.Node) error {
	found, act, err := previewResolve(ctx, sys, node, r.groups, r.reason)
	if err != nil {
		return err
	}
	if found.Matched == 0 {
		return errors.New("no unresolved failure matches")
	}
	for _, g := range found.Groups {
		if _, err := fmt.Fprintf(r.Out, "  %6d  %s  queue %s: %s\n", g.Count, g.ID, terminal.Cell(g.Queue, 60), terminal.Cell(g.Group, 120)); err != nil {
			return fmt.Errorf("cannot print the preview, so nothing was resolved: %w", err)
		}
	}
	if agreed, err := r.confirm(ctx, found); !agreed {
		return err
	}
	resolved, err := failures.ResolveFailures.Call(ctx, sys, act)
	done := resolved.Body
	if done.Failures > 0 {
		fmt.Fprintf(r.Out, "discarded %s, resolved %s\n", wording.Plural(done.Failures, "failure"), wording.Plural(len(done.Resolved), "group"))
	}
	if len(done.Open) > 0 {
		fmt.Fprintf(r.Out, "open, with other failures: %s\n", strings.Join(done.Open, ", "))
	}
	printParkedCopies(r.Out, done.Parked...)
	printMissing(r.Out, done.Missing, err)
	return err
}

// previewResolve returns the failures that a resolve finds, and the request that resolves these,
// whatever fails after them.
func previewResolve(ctx context.Context, sys backend, node kql.Node, groups []string, reason string) (found failures.GroupsResolved, act failures.ResolveInput, err error) {
	if node, err = client.AbsoluteTimes(node); err != nil {
		return found, act, err
	}
	if act.Body.Filter, act.Body.DSL, err = bodyFilter(sys, node, len(groups) > 0); err != nil {
		return found, act, err
	}
	act.Body.Groups, act.Body.Reason, act.Body.DryRun = groups, reason, true
	preview, err := failures.ResolveFailures.Call(ctx, sys, act)
	found = preview.Body
	act.Body.DryRun, act.Body.Expect, act.Body.UpTo = false, &found.Matched, found.UpTo
	return found, act, err
}

func (r resolve) confirm(ctx context.Context, found failures.GroupsResolved) (bool, error) {
	if r.yes {
		return true, nil
	}
	yes, err := r.Ask(ctx, fmt.Sprintf("Discard %s and resolve %s?", wording.Plural(found.Matched, "failure"), wording.Plural(len(found.Groups), "group")))
	if err == nil && !yes {
		err = errors.New("nothing was resolved")
	}
	return yes, err
}
