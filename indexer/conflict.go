package indexer

import (
	"context"

	"github.com/watershipmq/watership/schemas"
)

// conflict is an item whose id is in the store already.
type conflict struct {
	*item
	stored schemas.Stored
}

// resolveConflicts gives the items that are second messages, with ids of their own.
// Only an id that follows from the content can belong to another message.
func (s *session) resolveConflicts(ctx context.Context, conflicts []conflict) ([]*item, error) {
	var doubtful []conflict
	var stored []schemas.Stored
	for _, c := range conflicts {
		if c.event.IDFromContent() {
			doubtful = append(doubtful, c)
			stored = append(stored, c.stored)
		}
	}
	if len(doubtful) == 0 {
		return nil, nil
	}
	var sequences map[schemas.Stored]int64
	err := s.newRetryBudget().do(ctx, func() (err error) {
		sequences, err = s.cfg.Store.Sequences(ctx, stored)
		return err
	})
	var duplicates []*item
	for _, c := range doubtful {
		if s.isDuplicate(c.item, sequences[c.stored]) {
			s.replace(c.item, c.event.Second())
			duplicates = append(duplicates, c.item)
		}
	}
	return duplicates, err
}

// isDuplicate says whether an item is another message than the stored one with its
// id, which has this sequence. What comes again was looked for when it was taken: if
// it is stored since, then by this session, which also takes equal ones, or by an
// indexer that is gone, whose message it is. In any other doubt there are two events
// rather than one too few.
func (s *session) isDuplicate(it *item, stored int64) bool {
	switch {
	case stored == it.event.Sequence:
		return false
	case it.redelivered:
		return s.newestStored < stored && stored <= s.sequence.current()
	}
	return true
}
