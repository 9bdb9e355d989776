package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/subscription"
)

// runFollow delivers history and then each new event to a queue, until the user stops it.
func (r *replay) runFollow(cmd *cobra.Command, from *settings) error {
	if r.toQueue == "" {
		return usagef("--follow needs --to-queue: a message to its exchange would match again, and never end")
	}
	var other string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if cmd.InheritedFlags().Lookup(f.Name) == nil && !slices.Contains([]string{"follow", "to-queue", "yes", "since", "from", "to"}, f.Name) {
			other = f.Name
		}
	})
	if other != "" {
		return usagef("--follow and --%s cannot be combined", other)
	}
	return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
		node, err := sys.ParseQuery(r.query)
		if err == nil {
			node, err = r.filter.period.Limit(node)
		}
		if err != nil {
			return err
		}
		l, err := inCommand(sys, "--follow", "use watership subscribe")
		if err != nil {
			return err
		}
		if !r.yes {
			yes, err := r.Ask(ctx, fmt.Sprintf("Send the messages that match to queue %s, and each new one?", terminal.Cell(r.toQueue, 255)))
			if err != nil || !yes {
				return errors.Join(err, errors.New("nothing was sent"))
			}
		}
		delivered := int64(0)
		all, err := l.Subscriptions(ctx)
		if err != nil {
			return err
		}
		target := subscription.Target{Kind: subscription.ToQueue, Queue: r.toQueue}
		err = all.Follow(ctx, subscription.Subscription{Query: node.String(), Target: target}, subscription.From{}, func(c subscription.Checkpoint) { delivered = c.Delivered })
		if err != nil {
			return err
		}
		return printer{r.Streams, from.screen(cmd.OutOrStdout())}.printf("sent %s", wording.Plural(int(delivered), "message"))
	})
}
