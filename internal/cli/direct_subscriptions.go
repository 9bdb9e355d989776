package cli

import (
	"context"

	"github.com/watershipmq/watership/subscription"
)

// FollowTo implements subscriber.
func (d *direct) FollowTo(ctx context.Context, query, queue string, progress func(subscription.Checkpoint)) error {
	all, err := d.System.Subscriptions(ctx)
	if err != nil {
		return err
	}
	target := subscription.Target{Kind: subscription.ToQueue, Queue: queue}
	return all.Follow(ctx, subscription.Subscription{Query: query, Target: target}, subscription.From{}, progress)
}
