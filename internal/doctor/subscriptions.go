package doctor

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/subscription"
)

// checkSubscriptions reports subscriptions that deliver nothing, unless an operator has paused them.
func (d *doctor) checkSubscriptions(ctx context.Context) {
	if d.store == nil || d.conn == nil { // which tells the source
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	var list []subscription.Subscription
	subscriptions, err := d.Subscriptions(ctx)
	if err == nil {
		list, err = subscriptions.List(ctx)
	}
	if err != nil {
		d.report("subscriptions", Warning, err.Error(), "")
		return
	}
	problems := len(d.findings)
	for _, sub := range list {
		switch name := wording.Quoted(sub.Name); {
		case sub.State == subscription.Stopped:
			d.report("subscriptions", Warning, fmt.Sprintf("subscription %s is stopped: %s", sub.Name, sub.Reason),
				"mend its target, then: watership subscriptions resume "+name)
		case sub.State == subscription.Active && sub.Checkpoint.Waiting != "":
			d.report("subscriptions", Warning, fmt.Sprintf("subscription %s delivers nothing: %s", sub.Name, sub.Checkpoint.Waiting),
				"mend its target, or: watership subscriptions pause "+name)
		}
	}
	if len(list) > 0 && len(d.findings) == problems {
		d.reportOK("subscriptions", "%s without a problem", wording.Plural(len(list), "subscription"))
	}
}
