package indexer

import (
	"context"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// againWait is how long the broker takes at most to hand out the next message
// that comes again, if there is one.
const againWait = time.Second

// stored looks for the redelivered events in the store: an id is unique only
// within a backing index, and an older one may hold it. An id with the sequence in
// it was made just now.
func (x *Indexer) stored(ctx context.Context, items []*item) (stored map[string]schemas.Stored, err error) {
	var ids []string
	for _, it := range items {
		if it.mayBeStored() {
			ids = append(ids, it.document.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	err = x.insist(ctx, func() (err error) {
		stored, err = x.cfg.Store.Find(ctx, ids)
		return err
	})
	return stored, err
}

// unknown leaves out the redelivered events that are stored.
func unknown(items []*item, stored map[string]schemas.Stored) []*item {
	if len(stored) == 0 {
		return items
	}
	var rest []*item
	for _, it := range items {
		if _, known := stored[it.document.ID]; !known || !it.mayBeStored() {
			rest = append(rest, it)
		}
	}
	return rest
}

func (it *item) mayBeStored() bool {
	return it.redelivered && (it.event.Action != schemas.Published || it.event.IDFromContent())
}

// deliverAgain delivers, in order, what may be more than one request should have.
func (x *Indexer) deliverAgain(ctx context.Context, patience *patience, pending []*item) error {
	for len(pending) > 0 {
		n := x.appetite.portion(pending)
		if err := x.deliver(ctx, patience, pending[:n]); err != nil {
			return err
		}
		pending = pending[n:]
	}
	return nil
}
