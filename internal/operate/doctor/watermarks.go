package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// maxWatermarkAge is the age from which a watermark that nobody saves is reported: a live
// indexer saves it each second, and releases the watermark of another one after a minute.
const maxWatermarkAge = 3 * time.Minute

// checkWatermarks looks for queues whose indexer has ended without a successor: readers of
// new events wait for it.
func (r recordChecks) checkWatermarks(ctx context.Context) {
	if r.store == nil || r.conn == nil {
		return
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	source, err := r.source(ctx)
	var watermarks eventstore.Watermarks
	if err == nil {
		watermarks, _, err = eventstore.ReadWatermarks(ctx, r.store, source)
	}
	if err != nil {
		r.report(WatermarksUnknown, Warning, err.Error(), "")
		return
	}
	for _, queue := range slices.Sorted(maps.Keys(watermarks.Queues)) {
		entry := watermarks.Queues[queue]
		age := time.Since(entry.Updated)
		if entry.Session == "" || age < maxWatermarkAge {
			continue
		}
		r.report(WatermarkOld, Warning,
			fmt.Sprintf("readers of new events wait at position %d: no indexer has saved the watermark of queue %s for %s", entry.Sequence, queue, age.Round(time.Second)),
			"run watership serve with the role index; if it runs, see in its log why it cannot save the watermarks")
	}
}
