package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// settle writes a batch until the store has answered for each event: it is
// stored, was stored before, or is quarantined with the store's reason. It
// fails when the store is away for too long, or refuses what it should not.
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

func (s *session) writeItems(ctx context.Context, patience *retryBudget, pending []*item) error {
	for again := false; len(pending) > 0; again = true {
		if again {
			s.metrics.resent.Add(float64(len(pending)))
		}
		began := time.Now()
		results, err := s.cfg.Store.Create(ctx, documents(pending))
		s.metrics.observeRequest(time.Since(began), pending, err)
		if err != nil {
			if pending, err = s.handleFailure(ctx, patience, pending, err); err != nil {
				return err
			}
			continue
		}
		s.sizer.observe(len(pending), time.Since(began))
		left, err := s.classifyResults(ctx, pending, results)
		if err != nil {
			return err
		}
		if left.count() < len(pending) {
			patience.renew()
		}
		if pending, err = s.handleUnwritten(ctx, patience, left); err != nil {
			return err
		}
	}
	return nil
}

// left are items that an answered request has not stored.
type unwritten struct {
	changed    []*item // have another document now
	busy       []*item // are to be sent again later
	tooLarge   []*item // are more than the store takes at once
	busyReason error   // why some are busy
}

func (l unwritten) count() int { return len(l.changed) + len(l.busy) + len(l.tooLarge) }

// classify sorts the store's answers.
func (s *session) classifyResults(ctx context.Context, items []*item, results []schemas.Result) (unwritten, error) {
	var rest unwritten
	var conflicts []conflict
	for i, result := range results {
		it := items[i]
		switch result.Status {
		case schemas.Created:
			if it.event.Action != schemas.Quarantined {
				s.consecutiveRefusals.Store(0)
			}
		case schemas.Busy:
			rest.busyReason = &schemas.StoreError{Kind: schemas.StoreBusy, Reason: result.Reason}
			rest.busy = append(rest.busy, it)
		case schemas.TooLarge:
			rest.tooLarge = append(rest.tooLarge, it)
		case schemas.Conflict:
			conflicts = append(conflicts, conflict{it, schemas.Stored{Index: result.Index, ID: it.document.ID}})
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

// afterAnswer gives what is to be sent next of what is left.
func (s *session) handleUnwritten(ctx context.Context, patience *retryBudget, rest unwritten) ([]*item, error) {
	next := append(rest.changed, rest.busy...)
	if len(rest.tooLarge) > 0 {
		smaller, err := s.writeSmaller(ctx, patience, rest.tooLarge)
		if err != nil {
			return nil, err
		}
		next = append(next, smaller...)
	}
	if rest.busyReason == nil {
		return next, nil
	}
	s.sizer.halveEvents()
	return next, patience.waitAfterWrite(ctx, rest.busyReason)
}

// sendLess is for items that are too large for one request: it delivers each half of
// them, or gives a single one with a smaller document.
func (s *session) writeSmaller(ctx context.Context, patience *retryBudget, items []*item) ([]*item, error) {
	if s.sizer.shrinkBytes(documentBytes(items)); len(items) == 1 {
		return items, s.moveToUnstorable(ctx, items[0])
	}
	return nil, s.splitAndRetry(ctx, patience, items)
}

// manyRefused is how many documents in a row may be refused before that is
// taken for the store's fault, such as a mapping that somebody changed.
const maxConsecutiveRefusals = 100

func (s *session) quarantine(it *item, reason string) error {
	if it.event.Action == schemas.Quarantined {
		return fmt.Errorf("the store refuses even the raw envelope of event %s: %s", it.event.EventID, reason)
	}
	if s.consecutiveRefusals.Add(1) > maxConsecutiveRefusals {
		s.consecutiveRefusals.Store(0) // to be tried again after a pause
		return fmt.Errorf("the store refused %d documents in a row, the last with: %s", maxConsecutiveRefusals+1, reason)
	}
	s.cfg.Logger.Warn("the store refused a document; kept its envelope instead",
		"event", it.event.EventID, "action", it.event.Action, "reason", reason)
	s.replace(it, it.event.Quarantine(reason))
	return nil
}

// afterFailure decides what to send after a request failed as a whole.
func (s *session) handleFailure(ctx context.Context, patience *retryBudget, items []*item, err error) ([]*item, error) {
	var failed *schemas.StoreError
	if !errors.As(err, &failed) {
		return nil, err
	}
	switch failed.Kind {
	case schemas.StoreAway:
		if err := patience.waitAfterWrite(ctx, failed); err != nil {
			return nil, err
		}
		return s.dropWritten(ctx, patience, items)
	case schemas.StoreBusy:
		s.sizer.halveEvents()
		if len(items) > 1 && patience.attempt >= briefTries {
			if err := patience.waitAfterWrite(ctx, failed); err != nil {
				return nil, err
			}
			return nil, s.splitAndRetry(ctx, patience, items) // else one that is too large holds up the others
		}
	case schemas.StoreTooLarge:
		return s.writeSmaller(ctx, patience, items)
	case schemas.StoreRefused:
		if len(items) == 1 {
			return items, s.quarantine(items[0], failed.Reason)
		}
		return nil, s.splitAndRetry(ctx, patience, items)
	}
	return items, patience.waitAfterWrite(ctx, failed)
}

func (s *session) splitAndRetry(ctx context.Context, patience *retryBudget, items []*item) error {
	middle := len(items) / 2
	if err := s.writeItems(ctx, patience, items[:middle]); err != nil {
		return err
	}
	return s.writeItems(ctx, patience, items[middle:])
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
