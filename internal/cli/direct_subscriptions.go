package cli

import (
	"context"

	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/subscription"
)

// Subscribe implements subscriber.
func (d *direct) Subscribe(ctx context.Context, r subscriptions.Request, by subscriptions.Caller) (subscriptions.View, error) {
	return subscriptions.Service{System: d.System}.Subscribe(ctx, r, by)
}

// Subscriptions implements subscriber.
func (d *direct) Subscriptions(ctx context.Context) ([]subscriptions.View, error) {
	return subscriptions.Service{System: d.System}.List(ctx)
}

// Subscription implements subscriber.
func (d *direct) Subscription(ctx context.Context, name string) (subscriptions.View, error) {
	return subscriptions.Service{System: d.System}.Show(ctx, name)
}

// ChangeSubscription implements subscriber.
func (d *direct) ChangeSubscription(ctx context.Context, name string, change subscriptions.Change, by subscriptions.Caller) (subscriptions.View, error) {
	return subscriptions.Service{System: d.System}.Change(ctx, name, change, by)
}

// ParkedMessages implements subscriber.
func (d *direct) ParkedMessages(ctx context.Context, name string) ([]subscriptions.Parked, error) {
	return subscriptions.Service{System: d.System}.Parked(ctx, name)
}

// ChangeParked implements subscriber.
func (d *direct) ChangeParked(ctx context.Context, name string, drop bool, positions []string, by subscriptions.Caller) (int, error) {
	return subscriptions.Service{System: d.System}.ChangeParked(ctx, name, drop, positions, by)
}

// FollowTo implements subscriber.
func (d *direct) FollowTo(ctx context.Context, query, queue string, progress func(subscription.Checkpoint)) error {
	all, err := d.System.Subscriptions(ctx)
	if err != nil {
		return err
	}
	target := subscription.Target{Kind: subscription.ToQueue, Queue: queue}
	return all.Follow(ctx, subscription.Subscription{Query: query, Target: target}, subscription.From{}, progress)
}
