package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// writeBatch writes a batch until the store has every event: written now, written
// earlier, or quarantined with the store's reason. It fails when the store stays
// unavailable, or refuses documents that it should accept.
func (s *session) writeBatch(ctx context.Context, b *batch) error {
	pending := make([]*item, len(b.items))
	for i := range b.items {
		pending[i] = &b.items[i]
	}
	if !b.startsRedelivered {
		return s.writeItems(ctx, s.newRetryBudget(), dropStored(pending, b.stored))
	}
	return s.writeInOrder(ctx, s.newRetryBudget(), dropStored(pending, b.stored))
}

func (s *session) writeItems(ctx context.Context, budget *retryBudget, pending []*item) error {
	for again := false; len(pending) > 0; again = true {
		if again {
			s.metrics.resent.Add(float64(len(pending)))
		}
		if err := s.confirmClaim(ctx, budget); err != nil {
			return err
		}
		began := time.Now()
		results, err := s.cfg.Store.Create(ctx, documents(pending))
		s.metrics.observeRequest(time.Since(began), pending, err)
		if err != nil {
			if pending, err = s.handleFailure(ctx, budget, pending, err); err != nil {
				return err
			}
			continue
		}
		s.sizer.observe(len(pending), time.Since(began))
		rest, err := s.classifyResults(ctx, pending, results)
		if err != nil {
			return err
		}
		if rest.count() < len(pending) {
			budget.renew()
		}
		if pending, err = s.handleUnwritten(ctx, budget, rest); err != nil {
			return err
		}
	}
	return nil
}

// unwritten are the items of an answered request that the store did not accept.
type unwritten struct {
	changed    []*item // have a new document
	busy       []*item // refused by a busy store
	tooLarge   []*item // together larger than the store accepts
	busyReason error
}

func (u unwritten) count() int { return len(u.changed) + len(u.busy) + len(u.tooLarge) }

// classifyResults sorts the items that the store did not accept by the remedy. It
// quarantines those that the store refuses for their content.
func (s *session) classifyResults(ctx context.Context, items []*item, results []eventstore.Result) (unwritten, error) {
	var rest unwritten
	var conflicts []conflict
	for i, result := range results {
		it := items[i]
		switch result.Status {
		case eventstore.Created:
			if it.action != schemas.Quarantined {
				s.consecutiveRefusals.Store(0)
			}
		case eventstore.Busy:
			rest.busyReason = &eventstore.Error{Kind: eventstore.Overloaded, Reason: result.Reason}
			rest.busy = append(rest.busy, it)
		case eventstore.TooLarge:
			rest.tooLarge = append(rest.tooLarge, it)
		case eventstore.Conflict:
			conflicts = append(conflicts, conflict{it, eventstore.DocumentID{Index: result.Index, ID: it.document.ID}})
		default:
			if err := s.quarantine(it, result.Reason); err != nil {
				return unwritten{}, err
			}
			rest.changed = append(rest.changed, it)
		}
	}
	duplicates, err := s.resolveConflicts(ctx, conflicts)
	rest.changed = append(rest.changed, duplicates...)
	return rest, err
}

// handleUnwritten returns the items of the next request, after a pause if the store is
// busy.
func (s *session) handleUnwritten(ctx context.Context, budget *retryBudget, rest unwritten) ([]*item, error) {
	next := append(rest.changed, rest.busy...)
	if len(rest.tooLarge) > 0 {
		smaller, err := s.writeSmaller(ctx, budget, rest.tooLarge)
		if err != nil {
			return nil, err
		}
		next = append(next, smaller...)
	}
	if rest.busyReason == nil {
		return next, nil
	}
	s.sizer.halveEvents()
	return next, budget.waitAfterWrite(ctx, rest.busyReason)
}

// writeSmaller handles items that are too large for one request: it writes each half by
// itself, or returns a single item with a document without the body.
func (s *session) writeSmaller(ctx context.Context, budget *retryBudget, items []*item) ([]*item, error) {
	if s.sizer.shrinkBytes(documentBytes(items)); len(items) == 1 {
		return items, s.moveToUnstorable(ctx, items[0])
	}
	return nil, s.splitAndRetry(ctx, budget, items)
}

// maxConsecutiveRefusals limits the documents refused in a row. More of them point to a
// fault of the store, such as a changed mapping, and not of the documents. The requests of all
// sessions count together, and count again from the pause that follows.
const maxConsecutiveRefusals = 100

func (s *session) quarantine(it *item, reason string) error {
	if it.action == schemas.Quarantined {
		return fmt.Errorf("the store refuses even the raw envelope of event %s: %s", it.document.ID, reason)
	}
	if s.consecutiveRefusals.Add(1) > maxConsecutiveRefusals {
		return fmt.Errorf("the store refused %d documents in a row, the last with: %s", maxConsecutiveRefusals+1, reason)
	}
	s.cfg.Logger.Warn("the store refused a document; quarantined its raw envelope",
		"event", it.document.ID, "action", it.action, "reason", reason)
	return it.change(s.cfg.Format, func(e schemas.Event) schemas.Event { return e.Quarantine(reason) })
}

// handleFailure returns the items of the next request after a whole request failed.
func (s *session) handleFailure(ctx context.Context, budget *retryBudget, items []*item, err error) ([]*item, error) {
	var failed *eventstore.Error
	if !errors.As(err, &failed) {
		return nil, err
	}
	switch failed.Kind {
	case eventstore.Unavailable:
		if err := budget.waitAfterWrite(ctx, failed); err != nil {
			return nil, err
		}
		return s.dropWritten(ctx, budget, items)
	case eventstore.Overloaded:
		s.sizer.halveEvents()
		if len(items) > 1 && budget.failures >= briefTries {
			if err := budget.waitAfterWrite(ctx, failed); err != nil {
				return nil, err
			}
			return nil, s.splitAndRetry(ctx, budget, items) // a too large item must not block the others
		}
	case eventstore.RequestTooLarge:
		return s.writeSmaller(ctx, budget, items)
	case eventstore.BadRequest:
		if len(items) == 1 {
			return items, s.quarantine(items[0], failed.Reason)
		}
		return nil, s.splitAndRetry(ctx, budget, items)
	}
	return items, budget.waitAfterWrite(ctx, failed)
}

func (s *session) splitAndRetry(ctx context.Context, budget *retryBudget, items []*item) error {
	middle := len(items) / 2
	if err := s.writeItems(ctx, budget, items[:middle]); err != nil {
		return err
	}
	return s.writeItems(ctx, budget, items[middle:])
}

func documents(items []*item) []schemas.Document {
	list := make([]schemas.Document, len(items))
	for i, it := range items {
		list[i] = it.document
	}
	return list
}

func documentBytes(items []*item) int {
	bytes := 0
	for _, it := range items {
		bytes += len(it.document.Source)
	}
	return bytes
}
