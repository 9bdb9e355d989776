package eventfilter

import (
	"context"
	"iter"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// VisibleEvents is a store without the events that a caller may not see.
type VisibleEvents struct {
	history.CheckedStore
	caller access.Identity
}

// Visible returns the store of a System as the caller may see it.
func Visible(ctx context.Context, sys *system.System) (VisibleEvents, error) {
	store, err := sys.Store(ctx)
	return VisibleEvents{store, access.FromContext(ctx)}, err
}

// Events implements history.EventStore.
func (v VisibleEvents) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	node, err := v.caller.Restrict(sel.Query)
	if err != nil {
		return only[schemas.Event](err)
	}
	sel.Query = node
	return v.CheckedStore.Events(ctx, sel)
}

// Summaries implements history.Store.
func (v VisibleEvents) Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	node, err := v.caller.Restrict(sel.Query)
	if err != nil {
		return only[eventstore.EventSummary](err)
	}
	sel.Query = node
	return v.CheckedStore.Summaries(ctx, sel, either...)
}

// only is a sequence of an error.
func only[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
