package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// settle writes items until the store has answered for each of them: it is
// stored, was stored before, or is quarantined with the store's reason. It
// fails when the store is away for too long, or refuses even what is raw.
func (x *Indexer) settle(ctx context.Context, items []item) error {
	pending, err := x.unknown(ctx, items)
	if err != nil {
		return err
	}
	patience := x.patience()
	for len(pending) > 0 {
		results, err := x.cfg.Store.Create(ctx, documents(pending))
		if err != nil {
			if pending, err = x.afterFailure(ctx, patience, pending, err); err != nil {
				return err
			}
			continue
		}
		before := len(pending)
		if pending, err = x.judge(ctx, pending, results); err != nil {
			return err
		}
		if len(pending) < before {
			patience = x.patience()
		}
		if len(pending) > 0 {
			if err := patience.wait(ctx, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknown leaves out the redelivered events that are stored: an id is unique
// only within a backing index, and an older one may hold it.
func (x *Indexer) unknown(ctx context.Context, items []item) ([]item, error) {
	var ids []string
	for _, it := range items {
		if it.redelivered {
			ids = append(ids, it.document.ID)
		}
	}
	if len(ids) == 0 {
		return items, nil
	}
	var stored map[string]schemas.Stored
	err := x.insist(ctx, func() (err error) {
		stored, err = x.cfg.Store.Find(ctx, ids)
		return err
	})
	var rest []item
	for _, it := range items {
		if _, known := stored[it.document.ID]; !known || !it.redelivered {
			rest = append(rest, it)
		}
	}
	return rest, err
}

// judge sorts the store's answers and returns what has to be sent (again).
func (x *Indexer) judge(ctx context.Context, items []item, results []schemas.Result) ([]item, error) {
	var again []item
	var conflicts []conflict
	for i, result := range results {
		it := items[i]
		switch result.Status {
		case schemas.Created:
		case schemas.Busy:
			again = append(again, it)
		case schemas.Conflict:
			conflicts = append(conflicts, conflict{it, schemas.Stored{Index: result.Index, ID: it.document.ID}})
		default:
			if err := x.quarantine(&it, result.Reason); err != nil {
				return nil, err
			}
			again = append(again, it)
		}
	}
	seconds, err := x.seconds(ctx, conflicts)
	return append(again, seconds...), err
}

func (x *Indexer) quarantine(it *item, reason string) error {
	if it.event.Action == schemas.Quarantined {
		return fmt.Errorf("the store refuses even the raw envelope of event %s: %s", it.event.EventID, reason)
	}
	x.cfg.Logger.Warn("the store refused a document; kept its envelope instead",
		"event", it.event.EventID, "action", it.event.Action, "reason", reason)
	x.replace(it, it.event.Quarantine(reason))
	return nil
}

// afterFailure decides what to send after a request failed as a whole.
func (x *Indexer) afterFailure(ctx context.Context, patience *patience, items []item, err error) ([]item, error) {
	var failed *schemas.StoreError
	if !errors.As(err, &failed) {
		return nil, err
	}
	divisible := failed.Kind == schemas.StoreRefused || failed.Kind == schemas.StoreTooLarge
	switch {
	case divisible && len(items) > 1:
		return nil, x.halves(ctx, items)
	case failed.Kind == schemas.StoreTooLarge:
		return x.setAside(ctx, items[0])
	case failed.Kind == schemas.StoreRefused:
		return items, x.quarantine(&items[0], failed.Reason)
	}
	return items, patience.failed(ctx, failed)
}

func (x *Indexer) halves(ctx context.Context, items []item) error {
	middle := len(items) / 2
	if err := x.settle(ctx, items[:middle]); err != nil {
		return err
	}
	return x.settle(ctx, items[middle:])
}

// setAside keeps a message that is too large for the store in a queue, and
// writes its document without the body.
func (x *Indexer) setAside(ctx context.Context, it item) ([]item, error) {
	if it.event.BodyIn == schemas.BodyInUnstorable {
		return nil, fmt.Errorf("event %s is too large for the store even without its body", it.event.EventID)
	}
	err := x.cfg.Publisher.Publish(ctx, rabbit.Message{
		RoutingKey: x.cfg.Decoder.Topology.Unstorable(),
		Publishing: schemas.Wrap(it.event.Envelope, it.event.State),
	})
	if err != nil {
		return nil, fmt.Errorf("setting aside event %s, too large for the store: %w", it.event.EventID, err)
	}
	it.event.BodyIn = schemas.BodyInUnstorable
	x.replace(&it, it.event)
	return []item{it}, nil
}

func documents(items []item) []schemas.Document {
	list := make([]schemas.Document, len(items))
	for i, it := range items {
		list[i] = it.document
	}
	return list
}

// patience bounds how long messages are held while the store is away.
type patience struct {
	backoff
	until time.Time
	log   func(error)
}

func (x *Indexer) patience() *patience {
	return &patience{until: time.Now().Add(x.cfg.GiveBack), log: func(err error) {
		x.cfg.Logger.Warn("the store did not take a request; sending it again until it does", "error", err)
	}}
}

func (p *patience) failed(ctx context.Context, err *schemas.StoreError) error {
	if p.attempt == 0 {
		p.log(err)
	}
	if time.Now().After(p.until) {
		return err
	}
	return p.wait(ctx, err.RetryAfter)
}

// insist repeats a request until the store answers it.
func (x *Indexer) insist(ctx context.Context, request func() error) error {
	patience := x.patience()
	for {
		err := request()
		var failed *schemas.StoreError
		if err == nil || !errors.As(err, &failed) {
			return err
		}
		if err := patience.failed(ctx, failed); err != nil {
			return err
		}
	}
}
