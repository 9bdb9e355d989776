package admission

import (
	"context"

	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/pipeline/internal/admission/fairness"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// awaitKey waits until the key of the message has a handler for it.
func (t *Ticket) awaitKey(ctx context.Context) (Next, error) {
	a := t.of
	if t.share == nil {
		return Next{}, nil
	}
	wait, err := a.gate.Begin(ctx, t.share, a.cfg.Breaker.Exhausted(0, t.State.WaitsSince, a.cfg.Now()))
	if paused, _ := a.cfg.Paused.State(); err != nil || paused {
		return Next{Step: Requeue}, nil
	}
	if wait.Delay == 0 && t.opened() {
		wait = fairness.Wait{Reason: fairness.Unavailable, Delay: retry.Deferral(nil, 0).Delay}
	}
	if wait.Delay == 0 {
		return Next{}, a.places.Write(ctx)
	}
	return t.waitForKey(ctx, wait)
}

// waitForKey makes the message wait in a delay queue. Its first wait for an unavailable or held key has an
// event, and no other, since there may be many: with the error of the key, and no attempt.
func (t *Ticket) waitForKey(ctx context.Context, wait fairness.Wait) (Next, error) {
	a, s, v := t.of, &t.State, Next{Step: Wait}
	a.cfg.Metrics.KeyWaits.WithLabelValues(a.cfg.Queue, string(wait.Reason)).Inc()
	s.Deliveries, _ = t.deliveriesBefore(ctx)
	s.Queue, s.Time, s.Delay, s.Duration, s.EventID, s.Position = a.cfg.Queue, a.cfg.Now(), wait.Delay, 0, "", t.share.Position()
	t.identify()
	why := schemas.Failure{Type: pause.ByOperator, Message: "an operator holds the receiver " + t.share.Key()}
	waits := wait.Reason == fairness.Held
	if since, outage := t.share.Outage(); !waits && !since.IsZero() {
		why, waits = outage, true
	}
	if waits && s.WaitsSince.IsZero() {
		s.WaitsSince = s.Time
		v.Unavailable = &why
	}
	return v, t.away(ctx, wait.Delay)
}
