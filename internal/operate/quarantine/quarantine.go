// Package quarantine finds the events whose documents the store refused, and writes them
// again after the cause is mended.
package quarantine

import (
	"context"
	"iter"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// Query returns a query for the quarantined events that match a query.
func Query(node kql.Node) kql.Node {
	return kql.And{node, kql.Or{
		kql.Exists{Field: kql.Pattern{"watership.quarantined_action"}},
		kql.FieldIs("event.action", string(schemas.Quarantined)),
	}}
}

// Store keeps quarantined events.
type Store interface {
	Refresh(ctx context.Context) error
	Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error]
	Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error)
}

// Finder finds the refused events among the quarantined ones.
type Finder struct {
	Store Store
	Owns  func(exchange string) bool // whether an exchange is Watership's, which has no messages
}

// refused returns the event that a quarantined event replaces, or false for a message in
// the log that is no event.
func (f Finder) refused(e schemas.Event) (schemas.Event, bool) {
	refused, ok := e.Refused()
	return refused, ok && !f.Owns(e.Envelope.Exchange)
}

// Plan describes a rewrite before it happens.
type Plan struct {
	operation.Outcome
	Actions map[schemas.Action]int // of the events to write again
	LeftOut map[string]int         // documents that stay, by reason
}

// Reasons why documents stay.
const (
	NoEvent    = "no_event"   // messages in the log that are no events
	Unreadable = "unreadable" // documents that cannot be read
)

// Plan counts the quarantined events that match a query.
func (f Finder) Plan(ctx context.Context, node kql.Node) (Plan, error) {
	plan := Plan{operation.NewOutcome(), map[schemas.Action]int{}, map[string]int{}}
	if err := f.Store.Refresh(ctx); err != nil {
		return plan, err
	}
	for event, err := range f.Store.Events(ctx, eventstore.Selection{Query: Query(node), WithoutBody: true}) {
		if storeread.EndsRead(err) {
			return plan, err
		}
		refused, ok := f.refused(event)
		switch {
		case err != nil:
			plan.LeftOut[Unreadable]++
		case !ok:
			plan.LeftOut[NoEvent]++
		default:
			plan.Find(event.Queue, event.Sequence)
			plan.Actions[refused.Action]++
		}
	}
	return plan, nil
}
