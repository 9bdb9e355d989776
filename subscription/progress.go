package subscription

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// Progress reports how far a subscription is behind the store.
type Progress struct {
	CaughtUp bool          // no matching event is stored after the checkpoint
	Lag      time.Duration // age of the oldest event that is not delivered yet; 0 if it has caught up
}

// Progress looks for the first event after the checkpoint, since a subscription that had caught up
// when its checkpoint was saved may be paused, or run by no process any more.
func (r subscriptionRecords) Progress(ctx context.Context, sub Subscription) (Progress, error) {
	reader, complete, err := r.behind(ctx, sub)
	if err != nil || complete < sub.Checkpoint.Position.Sequence || complete == 0 {
		return Progress{CaughtUp: err == nil}, err
	}
	for event, err := range r.store.Events(ctx, eventstore.Selection{
		Query: reader.query(), Order: eventstore.BySequence, After: sub.Checkpoint.Position, UpTo: complete, Limit: 1, WithoutBody: true,
	}) {
		var failed *eventstore.Error
		if errors.As(err, &failed) {
			return Progress{}, err
		}
		if err != nil { // a document that cannot be read is not delivered either
			return Progress{Lag: sub.sinceCheckpoint(time.Now())}, nil
		}
		return Progress{Lag: max(0, time.Since(time.UnixMicro(event.Sequence)))}, nil
	}
	return Progress{CaughtUp: ctx.Err() == nil}, ctx.Err()
}

// Missing returns the number of matching events that a subscription has not delivered yet,
// of those that are complete in the store.
func (r subscriptionRecords) Missing(ctx context.Context, sub Subscription) (int64, error) {
	reader, complete, err := r.behind(ctx, sub)
	if err != nil || complete < sub.Checkpoint.Position.Sequence || complete == 0 {
		return 0, err
	}
	return r.store.Count(ctx, eventstore.Selection{
		Query: reader.query(), Order: eventstore.BySequence, After: sub.Checkpoint.Position, UpTo: complete,
	})
}

// behind returns the reader of a subscription, and the highest sequence that it could have reached.
func (r subscriptionRecords) behind(ctx context.Context, sub Subscription) (Reader, int64, error) {
	query, err := kql.Parse(sub.Query)
	if err != nil {
		return Reader{}, 0, err
	}
	complete, err := eventstore.Complete(ctx, r.store, sub.Source)
	return Reader{Store: r.store, Source: sub.Source, Query: query}, complete, err
}

// Lag returns the time of the events that the subscription has not delivered yet, as its checkpoint
// says: 0 if it had caught up then, and the time since its creation if it has delivered none since
// the beginning. Progress looks into the store.
func (s *Subscription) Lag(now time.Time) time.Duration {
	if s.Checkpoint.CaughtUp {
		return 0
	}
	return s.sinceCheckpoint(now)
}

func (s *Subscription) sinceCheckpoint(now time.Time) time.Duration {
	from := time.UnixMicro(cmp.Or(s.Checkpoint.Position.Sequence, s.Start.Sequence))
	if from.Year() < firstYear { // the beginning, of which the time is not known
		from = s.Created
	}
	return max(0, now.Sub(from))
}

// firstYear is before the time of every event.
const firstYear = 2000

// A runner saves its checkpoint at least each aliveInterval. Without one for attendedFor, none runs
// the subscription.
const (
	aliveInterval = 15 * time.Second
	attendedFor   = time.Minute
)

// Unattended reports whether no process runs an active subscription, and since when.
func (s *Subscription) Unattended(now time.Time) (since time.Time, unattended bool) {
	for _, at := range []time.Time{s.Created, s.Changed, s.Checkpoint.Time} {
		if at.After(since) {
			since = at
		}
	}
	return since, s.State == Active && now.Sub(since) > attendedFor
}
