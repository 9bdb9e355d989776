package api

import (
	"context"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/schemas"
)

// visibleEvents is a store without the events that a caller may not see.
type visibleEvents struct {
	app.EventStore
	caller access.Identity
}

// visible returns the store as the caller may see it.
func (a *API) visible(ctx context.Context) (visibleEvents, error) {
	store, err := a.app.Store(ctx)
	return visibleEvents{store, access.FromContext(ctx)}, err
}

func (v visibleEvents) restrict(sel eventstore.Selection) (eventstore.Selection, error) {
	node, err := v.caller.Restrict(sel.Query)
	sel.Query = node
	return sel, err
}

// Events implements app.EventStore.
func (v visibleEvents) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	sel, err := v.restrict(sel)
	if err != nil {
		return only[schemas.Event](err)
	}
	return v.EventStore.Events(ctx, sel)
}

// Summaries implements app.EventStore.
func (v visibleEvents) Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	sel, err := v.restrict(sel)
	if err != nil {
		return only[eventstore.EventSummary](err)
	}
	return v.EventStore.Summaries(ctx, sel, either...)
}

// Count implements app.EventStore.
func (v visibleEvents) Count(ctx context.Context, sel eventstore.Selection) (int64, error) {
	sel, err := v.restrict(sel)
	if err != nil {
		return 0, err
	}
	return v.EventStore.Count(ctx, sel)
}

// TopValues implements app.EventStore.
func (v visibleEvents) TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error) {
	sel, err := v.restrict(sel)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	return v.EventStore.TopValues(ctx, sel, field, n)
}

// Histogram implements app.EventStore.
func (v visibleEvents) Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error) {
	sel, err := v.restrict(sel)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	return v.EventStore.Histogram(ctx, sel, field, n, zone)
}

// only is a sequence of an error.
func only[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
