package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/watershipmq/watership/internal/wording"
)

// checkPaused reports routes whose breaker is open.
func (d *doctor) checkPaused(ctx context.Context) {
	if d.store == nil {
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	paused, err := d.Paused(ctx, d.store)
	if err != nil {
		d.report("paused", Warning, err.Error(), "")
		return
	}
	for _, queue := range slices.Sorted(maps.Keys(paused)) {
		e := paused[queue]
		d.report("paused", Warning, fmt.Sprintf("the route of queue %s is paused since %s: %s", queue, wording.Time(e.FirstFailed), e.Failure.Message),
			"mend its service: the route resumes by itself when a message succeeds")
	}
	if len(paused) == 0 {
		d.reportOK("paused", "no route is paused")
	}
}
