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
func (s *session) settle(ctx context.Context, b *batch) error {
	pending := make([]*item, len(b.items))
	for i := range b.items {
		pending[i] = &b.items[i]
	}
	if !b.again {
		return s.deliver(ctx, s.patience(), unknown(pending, b.known))
	}
	return s.deliverAgain(ctx, s.patience(), unknown(pending, b.known))
}

func (s *session) deliver(ctx context.Context, patience *patience, pending []*item) error {
	for again := false; len(pending) > 0; again = true {
		if again {
			s.metrics.resent.Add(float64(len(pending)))
		}
		began := time.Now()
		results, err := s.cfg.Store.Create(ctx, documents(pending))
		s.metrics.request(time.Since(began), pending, err)
		if err != nil {
			if pending, err = s.afterFailure(ctx, patience, pending, err); err != nil {
				return err
			}
			continue
		}
		s.appetite.took(len(pending), time.Since(began))
		left, err := s.classify(ctx, pending, results)
		if err != nil {
			return err
		}
		if left.count() < len(pending) {
			patience.progress()
		}
		if pending, err = s.afterAnswer(ctx, patience, left); err != nil {
			return err
		}
	}
	return nil
}

// left are items that an answered request has not stored.
type left struct {
	changed  []*item // have another document now
	busy     []*item // are to be sent again later
	tooLarge []*item // are more than the store takes at once
	reason   error   // why some are busy
}

func (l left) count() int { return len(l.changed) + len(l.busy) + len(l.tooLarge) }

// classify sorts the store's answers.
func (s *session) classify(ctx context.Context, items []*item, results []schemas.Result) (left, error) {
	var rest left
	var conflicts []conflict
	for i, result := range results {
		it := items[i]
		switch result.Status {
		case schemas.Created:
			if it.event.Action != schemas.Quarantined {
				s.refusedInARow.Store(0)
			}
		case schemas.Busy:
			rest.reason = &schemas.StoreError{Kind: schemas.StoreBusy, Reason: result.Reason}
			rest.busy = append(rest.busy, it)
		case schemas.TooLarge:
			rest.tooLarge = append(rest.tooLarge, it)
		case schemas.Conflict:
			conflicts = append(conflicts, conflict{it, schemas.Stored{Index: result.Index, ID: it.document.ID}})
		default:
			if err := s.quarantine(it, result.Reason); err != nil {
				return left{}, err
			}
			rest.changed = append(rest.changed, it)
		}
	}
	duplicates, err := s.resolveConflicts(ctx, conflicts)
	rest.changed = append(rest.changed, duplicates...)
	return rest, err
}

// afterAnswer gives what is to be sent next of what is left.
func (s *session) afterAnswer(ctx context.Context, patience *patience, rest left) ([]*item, error) {
	next := append(rest.changed, rest.busy...)
	if len(rest.tooLarge) > 0 {
		smaller, err := s.sendLess(ctx, patience, rest.tooLarge)
		if err != nil {
			return nil, err
		}
		next = append(next, smaller...)
	}
	if rest.reason == nil {
		return next, nil
	}
	s.appetite.lessEvents()
	return next, patience.failed(ctx, rest.reason)
}

// sendLess is for items that are too large for one request: it delivers each half of
// them, or gives a single one with a smaller document.
func (s *session) sendLess(ctx context.Context, patience *patience, items []*item) ([]*item, error) {
	if s.appetite.lessBytes(size(items)); len(items) == 1 {
		return items, s.setAside(ctx, items[0])
	}
	return nil, s.halves(ctx, patience, items)
}

// manyRefused is how many documents in a row may be refused before that is
// taken for the store's fault, such as a mapping that somebody changed.
const manyRefused = 100

func (s *session) quarantine(it *item, reason string) error {
	if it.event.Action == schemas.Quarantined {
		return fmt.Errorf("the store refuses even the raw envelope of event %s: %s", it.event.EventID, reason)
	}
	if s.refusedInARow.Add(1) > manyRefused {
		s.refusedInARow.Store(0) // to be tried again after a pause
		return fmt.Errorf("the store refused %d documents in a row, the last with: %s", manyRefused+1, reason)
	}
	s.cfg.Logger.Warn("the store refused a document; kept its envelope instead",
		"event", it.event.EventID, "action", it.event.Action, "reason", reason)
	s.replace(it, it.event.Quarantine(reason))
	return nil
}

// afterFailure decides what to send after a request failed as a whole.
func (s *session) afterFailure(ctx context.Context, patience *patience, items []*item, err error) ([]*item, error) {
	var failed *schemas.StoreError
	if !errors.As(err, &failed) {
		return nil, err
	}
	switch failed.Kind {
	case schemas.StoreAway:
		if err := patience.failed(ctx, failed); err != nil {
			return nil, err
		}
		return s.unanswered(ctx, patience, items)
	case schemas.StoreBusy:
		s.appetite.lessEvents()
		if len(items) > 1 && patience.attempt >= notAtOnce {
			if err := patience.failed(ctx, failed); err != nil {
				return nil, err
			}
			return nil, s.halves(ctx, patience, items) // else one that is too large holds up the others
		}
	case schemas.StoreTooLarge:
		return s.sendLess(ctx, patience, items)
	case schemas.StoreRefused:
		if len(items) == 1 {
			return items, s.quarantine(items[0], failed.Reason)
		}
		return nil, s.halves(ctx, patience, items)
	}
	return items, patience.failed(ctx, failed)
}

func (s *session) halves(ctx context.Context, patience *patience, items []*item) error {
	middle := len(items) / 2
	if err := s.deliver(ctx, patience, items[:middle]); err != nil {
		return err
	}
	return s.deliver(ctx, patience, items[middle:])
}

func documents(items []*item) []schemas.Document {
	list := make([]schemas.Document, len(items))
	for i, it := range items {
		list[i] = it.document
	}
	return list
}

func size(items []*item) int {
	bytes := 0
	for _, it := range items {
		bytes += len(it.document.Source)
	}
	return bytes
}
