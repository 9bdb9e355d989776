package subscription_test

import (
	"context"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/subscription"
)

// An active subscription without a checkpoint for a minute is run by no process.
func TestUnattended(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		sub  subscription.Subscription
		want bool
	}{
		"just created":   {subscription.Subscription{State: subscription.Active, Created: now.Add(-30 * time.Second)}, false},
		"never run":      {subscription.Subscription{State: subscription.Active, Created: now.Add(-time.Hour)}, true},
		"just resumed":   {subscription.Subscription{State: subscription.Active, Created: now.Add(-time.Hour), Changed: now.Add(-30 * time.Second)}, false},
		"run":            {subscription.Subscription{State: subscription.Active, Created: now.Add(-time.Hour), Checkpoint: subscription.Checkpoint{Time: now.Add(-20 * time.Second)}}, false},
		"run by no more": {subscription.Subscription{State: subscription.Active, Created: now.Add(-time.Hour), Checkpoint: subscription.Checkpoint{Time: now.Add(-2 * time.Minute), CaughtUp: true}}, true},
		"paused":         {subscription.Subscription{State: subscription.Paused, Created: now.Add(-time.Hour)}, false},
	} {
		if _, got := test.sub.Unattended(now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A subscription that had caught up and that no process runs shows the events since then.
func TestProgressWithoutARunner(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, hours(1, 3)...)
	s := subscription.New(r.cfg)
	r.create(t, s, toHandler("orders"))
	stop := r.run(t, s, "orders", func(context.Context, subscription.Delivery) error { return nil })
	rabbittest.Eventually(t, "it has caught up", func() bool {
		sub := get(t, s, "orders")
		p, err := s.Progress(t.Context(), sub)
		return sub.Checkpoint.CaughtUp && err == nil && p == subscription.Progress{CaughtUp: true}
	})
	stop()
	storeEvents(t, r.store, source, hours(4, 10)...)
	sub := get(t, s, "orders")
	if p, err := s.Progress(t.Context(), sub); err != nil || p.CaughtUp || p.Lag < time.Hour {
		t.Errorf("the progress is %+v, %v", p, err)
	}
	if n, err := s.Missing(t.Context(), sub); n != 7 || err != nil {
		t.Errorf("%d events are missing, %v", n, err)
	}
}
