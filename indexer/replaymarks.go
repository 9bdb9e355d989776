package indexer

import (
	"context"
	"sync"

	"github.com/watershipmq/watership/schemas"
)

// jobCache remembers ids of replay jobs that the store has.
type jobCache struct {
	mu    sync.Mutex // guards known
	known map[string]bool
}

const maxCachedJobs = 10_000

// uncached returns the ids that are not in the cache.
func (c *jobCache) uncached(ids map[string]bool) (missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range ids {
		if !c.known[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

func (c *jobCache) add(ids map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known)+len(ids) > maxCachedJobs {
		c.known = map[string]bool{}
	}
	for id := range ids {
		c.known[id] = true
	}
}

// removeForgedMarks removes the replay mark from each event whose job the store does not
// have: every publisher can set the header. The replayer stores a job before it
// sends the first message, so a mark without a job is forged.
func (s *session) removeForgedMarks(ctx context.Context, b *batch) error {
	unknown, err := s.unknownJobs(ctx, b)
	if err != nil {
		return err
	}
	var forged []*item
	var events []schemas.Event
	for i := range b.items {
		it := &b.items[i]
		if it.unmarked != nil && unknown[it.replay] {
			s.metrics.forgedMarks.Inc()
			forged, events = append(forged, it), append(events, it.unmarked())
		}
		it.unmarked = nil
	}
	if len(forged) == 0 {
		return nil
	}
	format, err := s.newRetryBudget().formatFor(ctx, s.cfg.Format, events)
	for i := range forged {
		if err == nil {
			forged[i].replace(format, events[i])
		}
	}
	return err
}

// unknownJobs returns the jobs that events of a batch name and the store does not have.
func (s *session) unknownJobs(ctx context.Context, b *batch) (map[string]bool, error) {
	named := map[string]bool{}
	for i := range b.items {
		if it := &b.items[i]; it.unmarked != nil {
			named[it.replay] = true
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
