package indexer

import (
	"context"
	"sync"
)

// jobs remembers replays that there are.
type jobCache struct {
	mu    sync.Mutex // guards known
	known map[string]bool
}

const maxCachedJobs = 10_000 // that are remembered

// missing gives those of some ids that are not remembered.
func (j *jobCache) uncached(ids map[string]bool) (missing []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id := range ids {
		if !j.known[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

func (j *jobCache) add(ids map[string]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.known == nil || len(j.known)+len(ids) > maxCachedJobs {
		j.known = map[string]bool{}
	}
	for id := range ids {
		j.known[id] = true
	}
}

// checkMarks takes the mark of a replay off each event whose job is not in the store:
// anybody who may publish can write a mark. A job is stored before its first message is
// sent, so one that is missing has sent none.
func (s *session) removeForgedMarks(ctx context.Context, b *batch) error {
	unknown, err := s.unknownJobs(ctx, b)
	if err != nil {
		return err
	}
	for i := range b.items {
		it := &b.items[i]
		if it.unmarked != nil && unknown[it.event.Replay] {
			s.metrics.forgedMarks.Inc()
			s.replace(it, it.unmarked())
		}
		it.unmarked = nil
	}
	return nil
}

// unknownJobs are those that events of a batch name and the store has not.
func (s *session) unknownJobs(ctx context.Context, b *batch) (map[string]bool, error) {
	named := map[string]bool{}
	for i := range b.items {
		if it := &b.items[i]; it.unmarked != nil {
			named[it.event.Replay] = true
		}
	}
	missing := s.jobs.uncached(named)
	if len(missing) == 0 {
		return nil, nil
	}
	var known map[string]bool
	err := s.newRetryBudget().do(ctx, func() (err error) {
		known, err = s.cfg.Store.KnownJobs(ctx, missing)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.jobs.add(known)
	unknown := map[string]bool{}
	for _, id := range missing {
		unknown[id] = !known[id]
	}
	return unknown, nil
}
