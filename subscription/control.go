package subscription

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
)

// recordKind is the kind of the records with subscriptions.
const recordKind = "subscription"

// subscriptionRecords are the stored subscriptions.
type subscriptionRecords struct {
	store  Records
	source string // that List and From concern
}

// From is the place of a source at which a subscription begins. The zero value is the first
// event.
type From struct {
	Position eventstore.Cursor // after it, as ParsePosition returns it
	Time     time.Time         // the first event of that time or later
	Now      bool              // the events that are not in the store yet
}

// ParseFrom parses start, now, a position or a time. Times are as in KQL, or have a
// space in place of the T; those without a zone are in the zone of now.
func ParseFrom(text string, now time.Time) (From, error) {
	switch text {
	case "", "start":
		return From{}, nil
	case "now":
		return From{Now: true}, nil
	}
	if position, err := ParsePosition(text); err == nil {
		return From{Position: position}, nil
	}
	at, err := kql.Instant(kql.DateTime(text), now, kql.First)
	switch {
	case err == nil && at.After(now):
		return From{}, mistakef("%q is in the future: expected start, now, a position or a time of the past", text)
	case err != nil || at.Year() < firstYear:
		return From{}, mistakef("%q: expected start, now, a position or a time such as 2026-01-31T12:00:00Z or now-1h", text)
	}
	return From{Time: at}, nil
}

// Create checks and stores a new subscription of the source, which is active from then on.
// It sets the fields that are no setting. Its error is an *Error for a mistake.
func (s *Subscriptions) Create(ctx context.Context, sub Subscription, from From) (Subscription, error) {
	sub.Source, sub.OnPoison = s.cfg.Source, cmp.Or(sub.OnPoison, Park)
	query, err := s.resolve(sub.Query)
	if err != nil {
		return sub, err
	}
	sub.Query, sub.Upcast.Version = query.String(), 0
	if sub.Upcast.Program != "" {
		sub.Upcast.Version = 1
	}
	if err := sub.check(s.cfg.Topology.Owns); err != nil {
		return sub, err
	}
	if sub.Start, err = s.find(ctx, from); err != nil {
		return sub, err
	}
	if sub.Accepted, err = s.acceptable(ctx, sub); err != nil {
		return sub, err
	}
	sub.State, sub.Reason, sub.Revision, sub.Created = Active, "", 1, time.Now().UTC()
	sub.Checkpoint = Checkpoint{Position: sub.Start}
	sub.version, err = eventstore.SaveRecord(ctx, s.cfg.Store, recordKind, sub.Name, "", sub)
	if err == nil && sub.version == "" {
		err = mistakef("there is a subscription %s: choose another name, or delete it first", sub.Name)
	}
	if err == nil {
		s.noteChange(ctx)
	}
	return sub, err
}

// resolve makes a query absolute. A query without event.action finds published events.
func (s *Subscriptions) resolve(text string) (kql.Node, error) {
	node, err := eventstore.ParseQuery(text, time.Now(), s.cfg.Labels...)
	if err != nil {
		return nil, mistakef("%v", err)
	}
	return history.PublishedByDefault(node), nil
}

// find returns the position of From.
func (r subscriptionRecords) find(ctx context.Context, from From) (eventstore.Cursor, error) {
	if !from.Now && from.Time.IsZero() {
		return from.Position, nil
	}
	complete, err := eventstore.Complete(ctx, r.store, r.source)
	if err != nil {
		return eventstore.Cursor{}, fmt.Errorf("looking up the position: %w", err)
	}
	next := eventstore.Cursor{Sequence: complete + 1}
	if from.Now || complete == 0 {
		return next, nil
	}
	since := kql.Range{Field: kql.Pattern{"@timestamp"}, Op: kql.GreaterOrEqual, Value: kql.Value{Pattern: kql.Pattern{from.Time.UTC().Format(kql.InstantLayout)}, Quoted: true}}
	reader := Reader{Source: r.source, Query: since}
	selection := eventstore.Selection{Query: reader.query(), Order: eventstore.BySequence, Limit: 1, UpTo: complete, WithoutBody: true}
	if err := r.store.Refresh(ctx); err != nil {
		return next, fmt.Errorf("looking up the position: %w", err)
	}
	for event, err := range r.store.Events(ctx, selection) {
		if err != nil {
			return next, fmt.Errorf("looking up the position: %w", err)
		}
		return eventstore.Cursor{Sequence: event.Sequence}, nil
	}
	return next, nil
}

// Get returns a subscription. Its error is a *NotFoundError if none exists.
func (r subscriptionRecords) Get(ctx context.Context, name string) (Subscription, error) {
	if err := checkName(name); err != nil {
		return Subscription{}, err
	}
	var sub Subscription
	version, err := eventstore.ReadRecord(ctx, r.store, recordKind, name, &sub)
	if err != nil {
		return sub, err
	}
	if version == "" {
		return sub, &NotFoundError{name}
	}
	sub.version = version
	return sub, nil
}

// All yields the subscriptions of every source, sorted by name from the last to the first.
// An error that is no *eventstore.Error concerns one record.
func (r subscriptionRecords) All(ctx context.Context) iter.Seq2[Subscription, error] {
	return func(yield func(Subscription, error) bool) {
		for document, err := range r.store.Records(ctx, recordKind) {
			var sub Subscription
			if err == nil {
				if err = json.Unmarshal(document, &sub); err != nil {
					err = fmt.Errorf("a subscription cannot be read: %w", err)
				}
			}
			if !yield(sub, err) {
				return
			}
		}
	}
}

// List returns the subscriptions of the source, sorted by name.
func (r subscriptionRecords) List(ctx context.Context) ([]Subscription, error) {
	var list []Subscription
	for sub, err := range r.All(ctx) {
		var failed *eventstore.Error
		switch {
		case err == nil && sub.Source == r.source:
			list = append(list, sub)
		case errors.As(err, &failed), ctx.Err() != nil:
			return nil, fmt.Errorf("reading the subscriptions: %w", err)
		}
	}
	slices.Reverse(list)
	return list, nil
}

// Pause stops the deliveries until Resume. Its runner notices that as Serve does, and
// saves no checkpoint any more.
func (s *Subscriptions) Pause(ctx context.Context, name, by, reason string) (Subscription, error) {
	return s.change(ctx, name, by, func(sub *Subscription) { sub.State, sub.Reason = Paused, reason })
}

// Resume continues after the checkpoint, also after a poison message has stopped the
// subscription, which is tried again. A queue that has refused messages gets many at a time again.
func (s *Subscriptions) Resume(ctx context.Context, name, by string) (Subscription, error) {
	return s.change(ctx, name, by, resume)
}

func resume(sub *Subscription) {
	sub.State, sub.Reason, sub.RemovedUpTo, sub.Checkpoint.OneByOne = Active, "", 0, false
}

// ResumeAfterRemoved is Resume without the events that retention has removed. The events that are
// still stored after the checkpoint are delivered.
func (s *Subscriptions) ResumeAfterRemoved(ctx context.Context, name, by string) (Subscription, error) {
	sub, err := s.Get(ctx, name)
	if err != nil {
		return sub, err
	}
	accepted, err := s.acceptable(ctx, sub)
	if err != nil {
		return sub, err
	}
	return s.change(ctx, name, by, func(sub *Subscription) {
		resume(sub)
		sub.Accepted = max(sub.Accepted, accepted)
	})
}

// acceptable returns Subscription.Accepted for a subscription that goes on after the stored events.
func (r subscriptionRecords) acceptable(ctx context.Context, sub Subscription) (int64, error) {
	query, err := kql.Parse(sub.Query)
	if err != nil {
		return 0, err
	}
	return Reader{Store: r.store, Source: sub.Source, Query: query}.Acceptable(ctx)
}

// Rewind lets the deliveries continue at another place, before or after the checkpoint. The
// state stays. Repeated deliveries have their positions.
func (s *Subscriptions) Rewind(ctx context.Context, name, by string, to From) (Subscription, error) {
	position, err := s.find(ctx, to)
	if err != nil {
		return Subscription{}, err
	}
	sub, err := s.Get(ctx, name)
	if err != nil {
		return sub, err
	}
	accepted, err := s.acceptable(ctx, sub)
	if err != nil {
		return sub, err
	}
	return s.change(ctx, name, by, func(sub *Subscription) {
		sub.Accepted = max(sub.Accepted, accepted)
		sub.Checkpoint.Position, sub.Checkpoint.CaughtUp, sub.Checkpoint.Waiting, sub.Checkpoint.Error = position, false, "", ""
		sub.Rewinds++
	})
}

// change changes a subscription for an operator.
func (s *Subscriptions) change(ctx context.Context, name, by string, change func(*Subscription)) (Subscription, error) {
	return s.revise(ctx, name, func(sub *Subscription) {
		change(sub)
		sub.ChangedBy, sub.Changed = by, time.Now().UTC()
	})
}

// revise changes a subscription. It repeats a save that conflicts with a checkpoint.
func (s *Subscriptions) revise(ctx context.Context, name string, change func(*Subscription)) (Subscription, error) {
	for ctx.Err() == nil {
		sub, err := s.Get(ctx, name)
		if err != nil {
			return sub, err
		}
		change(&sub)
		sub.Revision++
		saved, err := s.save(ctx, &sub)
		if saved {
			s.noteChange(ctx)
		}
		if err != nil || saved {
			return sub, err
		}
	}
	return Subscription{}, context.Cause(ctx)
}

// save saves a subscription if its record was not changed since it was read.
func (r subscriptionRecords) save(ctx context.Context, sub *Subscription) (saved bool, err error) {
	version, err := eventstore.SaveRecord(ctx, r.store, recordKind, sub.Name, sub.version, sub)
	if err != nil || version == "" {
		return false, err
	}
	sub.version = version
	return true, nil
}

// Delete deletes a subscription and the list of its parked messages.
func (s *Subscriptions) Delete(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		sub, err := s.Get(ctx, name)
		if err != nil {
			return err
		}
		deleted, err := s.cfg.Store.DeleteRecord(ctx, recordKind, name, sub.version)
		if err != nil {
			return err
		}
		if deleted {
			s.noteChange(ctx)
			_, err = s.drop(ctx, name, nil)
			return err
		}
	}
	return context.Cause(ctx)
}
