package client

import (
	"context"

	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation"
)

// Subscribe creates a subscription. The server records the name of the token as its creator.
func (c *Client) Subscribe(ctx context.Context, r subscriptions.Request, by subscriptions.Caller) (v subscriptions.View, err error) {
	body := subscriptions.NewSubscription{Request: r}
	if by.Zone != nil {
		body.Zone = zoneName(by.Zone)
	}
	err = c.post(ctx, actTimeout, "/subscriptions", newKey(), body, &v)
	return v, err
}

// Subscriptions returns the subscriptions that the caller may see, sorted by name.
func (c *Client) Subscriptions(ctx context.Context) ([]subscriptions.View, error) {
	var list subscriptions.Subscriptions
	err := c.get(ctx, readTimeout, "/subscriptions", nil, &list)
	views := make([]subscriptions.View, len(list.Subscriptions))
	for i, sub := range list.Subscriptions {
		views[i] = subscriptions.View(sub)
	}
	return views, err
}

// Subscription returns a subscription.
func (c *Client) Subscription(ctx context.Context, name string) (v subscriptions.View, err error) {
	err = c.get(ctx, readTimeout, subscriptionPath(name, ""), nil, &v)
	return v, err
}

func subscriptionPath(name, rest string) string {
	return "/subscriptions/" + operation.Segment(name) + rest
}

// ChangeSubscription pauses, resumes, rewinds or deletes a subscription.
func (c *Client) ChangeSubscription(ctx context.Context, name string, change subscriptions.Change, _ subscriptions.Caller) (v subscriptions.View, err error) {
	body, into := map[string]string{}, any(&v)
	switch change.Action {
	case subscriptions.Pause:
		body["reason"] = change.Reason
	case subscriptions.Rewind:
		body["to"] = change.To
	case subscriptions.Delete:
		into = nil
	}
	err = c.post(ctx, actTimeout, subscriptionPath(name, "/"+string(change.Action)), newKey(), body, into)
	return v, err
}

// ParkedMessages returns the parked messages of a subscription.
func (c *Client) ParkedMessages(ctx context.Context, name string) ([]subscriptions.Parked, error) {
	var list subscriptions.ParkedMessages
	err := c.get(ctx, readTimeout, subscriptionPath(name, "/parked"), nil, &list)
	parked := make([]subscriptions.Parked, len(list.Parked))
	for i, p := range list.Parked {
		parked[i] = subscriptions.Parked(p)
	}
	return parked, err
}

// ChangeParked lets parked messages be delivered again, or drops them.
func (c *Client) ChangeParked(ctx context.Context, name string, drop bool, positions []string, _ subscriptions.Caller) (int, error) {
	action := "/parked/retry"
	if drop {
		action = "/parked/drop"
	}
	var count subscriptions.ParkedCount
	err := c.post(ctx, actTimeout, subscriptionPath(name, action), newKey(), map[string][]string{"positions": positions}, &count)
	return count.Changed, err
}
