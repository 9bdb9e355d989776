package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/render/wording"
)

// newDiscard returns `failed discard`.
func newDiscard(from *settings) *cobra.Command {
	var a action
	cmd := &cobra.Command{
		Use:   "discard [QUERY]",
		Short: "Mark failures as resolved, with a reason",
		Long: `Mark failures as resolved: the unresolved failures that match a query, or the ones
listed by id. Nothing is deleted. Each failure gets an event with the operator, the
time and the reason, and can still be replayed.`,
		Example: `  watership failed discard 'queue: orders and error.type: validation' --dry-run
  watership failed discard 'queue: orders and error.type: validation' --reason 'test orders' --expect 12 --yes
  watership failed discard --ids paid.txt --reason 'paid by hand' --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			query := strings.Join(args, " ")
			if err := a.needReason(); err != nil {
				return err
			}
			if !a.isSelective(query) {
				return usagef("expected a query or --ids; '*' discards every failure there is")
			}
			if err := a.read(from, cmd, "discard"); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return a.discard(ctx, sys, query) })
		},
	}
	a.addSelection(cmd)
	a.addGuard(cmd)
	a.addFlags(cmd, "why (required)")
	return cmd
}

func (a *action) discard(ctx context.Context, sys backend, query string) (err error) {
	var in failures.DiscardInput
	if in.Body.Choice, err = a.choice(sys, query, false); err != nil {
		return err
	}
	return a.operate(ctx, &in.Body.Choice, &in.Body.Bounds, actionTexts{
		unit: "failure", nothing: "no unresolved failure matches", place: "failed at",
		question: func(found answer) string { return fmt.Sprintf("Discard %s?", wording.Plural(found.Matched, "failure")) },
		result: func(done answer) string {
			if done.Done == 0 {
				return ""
			}
			return fmt.Sprintf("discarded %s\n", wording.Plural(done.Done, "failure"))
		},
	}, func(ctx context.Context) (answer, error) {
		out, err := failures.DiscardFailures.Call(ctx, sys, in)
		return answer{out.Body.Outcome, out.Body.Parked, out.Body}, err
	})
}
