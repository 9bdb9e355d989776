package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/render/wording"
)

// resolve holds the arguments of `failed resolve`.
type resolve struct {
	action
	query  string
	groups []string
}

// newFailedResolve returns `failed resolve`.
func newFailedResolve(from *settings) *cobra.Command {
	var r resolve
	cmd := &cobra.Command{
		Use:   "resolve [GROUP...]",
		Short: "Resolve groups of failures, with a reason",
		Long: `Discard every unresolved failure of some groups, or those that match --query or are
listed by id, and record that their groups are resolved. A group that fails again after
that has regressed. A group stays open if some of its failures are not among them.

Nothing is deleted: each failure can still be replayed.`,
		Example: `  watership failed resolve k3f7q2xa --reason 'fixed in 1.4.2: OPS-12'
  watership failed resolve --query 'queue: orders and error.type: validation' --reason 'test orders' --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.groups = args
			if err := r.needReason(); err != nil {
				return err
			}
			if len(r.groups) == 0 && !r.isSelective(r.query) {
				return usagef("expected groups, --query or --ids; --query '*' resolves every group there is")
			}
			if err := r.read(from, cmd, "resolve"); err != nil {
				return err
			}
			return from.withSystem(cmd, r.run)
		},
	}
	r.addSelection(cmd)
	addNonEmpty(cmd.Flags(), &r.query, "query", "resolve the groups of the failures that match")
	r.addGuard(cmd)
	r.addFlags(cmd, "why (required)")
	return cmd
}

func (r *resolve) run(ctx context.Context, sys backend) (err error) {
	var in failures.ResolveInput
	if in.Body.Choice, err = r.choice(sys, r.query, len(r.groups) > 0); err != nil {
		return err
	}
	in.Body.Groups = r.groups
	var last failures.GroupsResolved
	return r.operate(ctx, &in.Body.Choice, &in.Body.Bounds, actionTexts{
		unit: "failure", nothing: "no unresolved failure matches",
		preview: func(answer) string {
			var page strings.Builder
			for _, g := range last.Groups {
				fmt.Fprintf(&page, "  %6d  %s  queue %s: %s\n", g.Count, g.ID, terminal.Cell(g.Queue, 60), terminal.Cell(g.Group, 120))
			}
			return page.String()
		},
		question: func(answer) string {
			return fmt.Sprintf("Discard %s and resolve %s?", wording.Plural(last.Matched, "failure"), wording.Plural(len(last.Groups), "group"))
		},
		result: func(answer) (text string) {
			if last.Done > 0 {
				text = fmt.Sprintf("discarded %s, resolved %s\n", wording.Plural(last.Done, "failure"), wording.Plural(len(last.Resolved), "group"))
			}
			if len(last.Open) > 0 {
				text += fmt.Sprintf("open, with other failures: %s\n", strings.Join(last.Open, ", "))
			}
			return text
		},
	}, func(ctx context.Context) (answer, error) {
		out, err := failures.ResolveFailures.Call(ctx, sys, in)
		last = out.Body
		return answer{last.Outcome, last.Parked, last}, err
	})
}
