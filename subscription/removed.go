package subscription

import (
	"context"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/storeread"
)

// RemovedError is the reason why a reader does not go on: retention has removed events that it has
// not read.
type RemovedError struct {
	After eventstore.Cursor // of the last event that was read
	UpTo  int64             // highest event.sequence of the removed ones
}

// Error implements error.
func (e *RemovedError) Error() string {
	return fmt.Sprintf("events up to %s (position %d) were removed by retention before they were read", sequenceTime(e.UpTo), e.UpTo)
}

func sequenceTime(sequence int64) string { return time.UnixMicro(sequence).UTC().Format(time.RFC3339) }

const (
	checkInterval = 5 * time.Second  // between two checks while no events are read
	youngest      = time.Minute      // retention removes no younger events
	acceptedAhead = 10 * time.Minute // in which a reading begins
	acceptTimeout = 5 * time.Second  // for a record that Elasticsearch has just made, and cannot read yet
)

// checkRemoved returns a *RemovedError if events are missing before the page.
func (r *reading) checkRemoved(ctx context.Context) error {
	isStart := r.after.Sequence == 0 && r.Accept == 0
	if isStart || time.Since(time.UnixMicro(r.after.Sequence)) < youngest {
		return nil
	}
	upTo, err := r.removedUpTo(ctx)
	if err != nil {
		return err
	}
	if upTo > max(r.after.Sequence, r.Accept) {
		return &RemovedError{After: r.after, UpTo: upTo}
	}
	r.checked = time.Now()
	return nil
}

// removedUpTo returns the highest sequence of removed events that the query may have matched.
func (r Reader) removedUpTo(ctx context.Context) (int64, error) {
	removed, err := r.Store.Removed(ctx, r.Source)
	if err != nil {
		return 0, fmt.Errorf("reading what retention has removed: %w", err)
	}
	return removed.UpTo(r.Query), nil
}

// Acceptable returns Accept for a reader that does without the events that retention has removed by
// now. It includes those that retention removes in the next minutes, in which the reading begins.
func (r Reader) Acceptable(ctx context.Context) (int64, error) {
	upTo, err := storeread.Do(ctx, acceptTimeout, func() (int64, error) { return r.removedUpTo(ctx) })
	if upTo > 0 {
		upTo += acceptedAhead.Microseconds()
	}
	return max(upTo, 1), err
}
