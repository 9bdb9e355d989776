package indexer

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
)

// conflict is an item whose id the store has already.
type conflict struct {
	*item
	stored eventstore.DocumentID
}

// resolveConflicts returns the items that are other messages than the stored ones, with
// new ids. Only ids that are computed from the content can be shared by two messages.
func (s *session) resolveConflicts(ctx context.Context, conflicts []conflict) ([]*item, error) {
	var doubtful []conflict
	var stored []eventstore.DocumentID
	for _, c := range conflicts {
		if c.idFromContent {
			doubtful = append(doubtful, c)
			stored = append(stored, c.stored)
		}
	}
	if len(doubtful) == 0 {
		return nil, nil
	}
	var sequences map[eventstore.DocumentID]int64
	err := s.newRetryBudget().do(ctx, func() (err error) {
		sequences, err = s.cfg.Store.Sequences(ctx, stored)
		return err
	})
	if err != nil {
		return nil, err
	}
	var duplicates []*item
	for _, c := range doubtful {
		if s.isDuplicate(c.item, sequences[c.stored]) {
			if err := c.item.makeUnique(s.cfg.Format); err != nil {
				return nil, err
			}
			duplicates = append(duplicates, c.item)
		}
	}
	return duplicates, nil
}

// isDuplicate reports whether an item is another message than the stored one with its
// id and the given sequence. Redelivered items were looked up before: if the store has
// one now, either this session wrote an equal message, or an indexer that has stopped
// wrote this one. A wrong answer should rather store an event twice than lose one.
func (s *session) isDuplicate(it *item, stored int64) bool {
	switch {
	case stored == it.sequence:
		return false
	case it.redelivered:
		return s.newestStored < stored && stored <= s.sequence.current()
	}
	return true
}
