package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/doctor/commandline"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// checkSubscriptions reports subscriptions that deliver nothing, unless an operator has paused them.
func (r recordChecks) checkSubscriptions(ctx context.Context) {
	if r.store == nil || r.conn == nil { // for the source
		return
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	var list []subscription.Subscription
	all, err := r.Subscriptions(ctx)
	if err == nil {
		list, err = all.List(ctx)
	}
	if err != nil {
		r.report(SubscriptionsUnknown, Warning, err.Error(), "")
		return
	}
	problems := len(r.findings)
	for _, sub := range list {
		r.checkSubscription(ctx, all, sub)
	}
	if len(list) > 0 && len(r.findings) == problems {
		r.reportOK(SubscriptionsCheck, "%s without a problem", wording.Plural(len(list), "subscription"))
	}
}

// checkSubscription reports the first problem of a subscription.
func (r recordChecks) checkSubscription(ctx context.Context, all *subscription.Subscriptions, sub subscription.Subscription) {
	do := func(action string) *commandline.Command { return commandline.New("subscriptions "+action, sub.Name) }
	since, unattended := sub.Unattended(time.Now())
	switch {
	case sub.RemovedUpTo > 0:
		r.reportWith(do("resume").With("skip-removed", ""), SubscriptionMissedEvents, Warning, fmt.Sprintf("subscription %s is stopped: %s", sub.Name, sub.Reason),
			"keep events for longer (store.retention), and go on without them")
	case sub.State == subscription.Stopped:
		r.reportWith(do("resume"), SubscriptionStopped, Warning, fmt.Sprintf("subscription %s is stopped: %s", sub.Name, subscriptions.WithoutBody(sub.Reason)), "mend its target, then")
	case r.isOvertaken(ctx, all, sub):
	case unattended:
		remedy := "start watership serve with the role subscriptions, or"
		if sub.Target.Kind == subscription.ToHandler {
			remedy = "start the program that handles its events, or"
		}
		r.add(Finding{
			Code: SubscriptionUnattended, Verdict: Warning, Detail: "no process runs subscription " + sub.Name + ", whose last checkpoint is old",
			Since: &since, Remedy: remedy, Command: do("pause"),
		})
	case sub.State == subscription.Active && sub.Checkpoint.Waiting != "":
		r.reportWith(do("pause"), SubscriptionWaits, Warning, fmt.Sprintf("subscription %s delivers nothing: %s", sub.Name, sub.Checkpoint.Waiting.Text(sub.Checkpoint.Error)), "mend its target, or")
	default:
		r.checkParked(ctx, all, sub)
	}
}

// checkParked reports the messages that a subscription could not deliver, until they are delivered
// again or dropped.
func (r recordChecks) checkParked(ctx context.Context, all *subscription.Subscriptions, sub subscription.Subscription) {
	if sub.Checkpoint.Parked == 0 {
		return
	}
	parked, err := all.Parked(ctx, sub.Name)
	if err != nil || len(parked) == 0 {
		return // the list of subscriptions reports the error
	}
	last := slices.MaxFunc(parked, func(a, b subscription.Parked) int { return a.Time.Compare(b.Time) })
	r.reportWith(commandline.New("subscriptions parked", sub.Name).With("retry", ""), SubscriptionParked, Warning,
		fmt.Sprintf("subscription %s could not deliver %s: %s", sub.Name, wording.Plural(len(parked), "message"), last.Cause.Text(last.Error)),
		"mend its target, then")
}

// isOvertaken reports a subscription that retention is about to overtake: the oldest event that it has
// not delivered has used four fifths of its time in the store.
func (r recordChecks) isOvertaken(ctx context.Context, all *subscription.Subscriptions, sub subscription.Subscription) bool {
	query, err := kql.Parse(sub.Query)
	if err != nil {
		return false // its runner reports it
	}
	keep := shortestPeriod(r.Settings.Store.Retention, query)
	progress, err := all.Progress(ctx, sub)
	if err != nil || keep == 0 || progress.Lag < keep/5*4 {
		return false
	}
	r.reportWith(commandline.New("subscriptions show", sub.Name), SubscriptionBehindRetention, Warning,
		fmt.Sprintf("retention removes events that subscription %s has not delivered: the oldest one is from %s ago, and %s are kept", sub.Name, wording.Duration(progress.Lag), wording.Duration(keep)),
		"keep events for longer (store.retention), or let it deliver")
	return true
}

// shortestPeriod returns the shortest time for which events are kept that a query can match; 0 is for
// ever.
func shortestPeriod(retention config.Retention, query kql.Node) (shortest time.Duration) {
	periods := map[schemas.Stream]time.Duration{schemas.Traffic: retention.Traffic, schemas.Failures: retention.Failures}
	for _, stream := range retention.Rules.Streams() {
		periods[stream], _ = stream.Period()
	}
	for stream, period := range periods {
		if period > 0 && retention.Rules.CanHold(stream, query) && (shortest == 0 || period < shortest) {
			shortest = period
		}
	}
	return shortest
}
