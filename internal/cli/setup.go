package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/app"
)

func newSetup(from *settings) *cobra.Command {
	var access kibanaAccess
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Declare queues and exchanges, install index templates, import the dashboard",
		Long: `Declare Watership's exchanges and queues, tap the configured exchanges, install the
index templates and, with --kibana, import the saved objects. setup can be repeated:
it leaves existing objects unchanged, and fails with a remedy if one has other
arguments. Saved objects of an earlier import are replaced.

If tap.when_full or tap.limit has changed, setup indexes the messages of the former
index queue and deletes it. Stop every serve with the former configuration first.

setup fails if a policy lets the broker drop messages of Watership's queues, or sets
a delivery limit on a route's queue without a dead-letter exchange. The error has the
command that changes the policy.`,
		Example: "  watership setup --config watership.yaml --kibana http://localhost:5601",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			to, err := access.open()
			if err != nil {
				return err
			}
			return from.with(cmd, func(ctx context.Context, a *app.App) error {
				return a.Setup(ctx, to, func(subject, text string) {
					fmt.Fprintf(cmd.OutOrStdout(), "%-11s %s\n", subject, text)
				})
			})
		},
	}
	access.addFlags(cmd)
	return cmd
}
