package projection

import (
	"context"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/subscription"
)

// batch has the events of one transaction. They are read before it begins, so that a
// transaction never waits for the store.
type batch struct {
	limits   Config
	items    []subscription.Item
	position eventstore.Cursor // after the items; the zero value does not change the checkpoint
	bytes    int
	begun    time.Time
}

func newBatch(limits Config) *batch { return &batch{limits: limits} }

func (b *batch) add(item subscription.Item) {
	if len(b.items) == 0 {
		b.begun = time.Now()
	}
	b.items = append(b.items, item)
	b.bytes += len(item.Event.Envelope.Body)
	if item.Err == nil {
		b.position = item.Position
	}
}

func (b *batch) isFull() bool {
	return len(b.items) > 0 && (len(b.items) >= b.limits.BatchEvents || b.bytes >= maxBatchBytes || time.Since(b.begun) >= b.limits.BatchTime)
}

// single returns a batch with one of the items. The last one also has the position after all.
func (b *batch) single(i int) *batch {
	one := newBatch(b.limits)
	one.add(b.items[i])
	if i == len(b.items)-1 {
		one.position = b.position
	}
	return one
}

// hasUnreadable reports whether an item is a document that is no event.
func (b *batch) hasUnreadable() bool {
	for _, item := range b.items {
		if item.Err != nil {
			return true
		}
	}
	return false
}

// items yields the events after the checkpoint.
func (r *runner) items(ctx context.Context) iter.Seq2[subscription.Item, error] {
	return r.cfg.Reader.Items(ctx, r.generation.Position)
}
