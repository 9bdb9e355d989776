package doctor

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/quarantine"
	"github.com/watershipmq/watership/internal/storeretry"
	"github.com/watershipmq/watership/internal/wording"
)

// maxQuarantined is the number of quarantined events that are counted.
const maxQuarantined = 1000

// checkQuarantine reports events whose documents the store refused: searches by their headers
// and bodies do not find them.
func (d *doctor) checkQuarantine(ctx context.Context) {
	if d.store == nil {
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	selection := eventstore.Selection{
		Query: quarantine.Query(kql.All{}), Order: eventstore.NewestFirst, Limit: maxQuarantined, WithoutBody: true,
	}
	count, reason := 0, ""
	for e, err := range d.store.Events(ctx, selection) {
		if storeretry.EndsRead(err) {
			d.report("quarantine", Warning, err.Error(), "")
			return
		}
		if count++; reason == "" {
			reason = e.Failure.Message
		}
	}
	switch {
	case count == 0:
		d.reportOK("quarantine", "the store refused no document")
	case count == maxQuarantined:
		d.report("quarantine", Warning, fmt.Sprintf("%d events or more are in quarantine, the newest since: %s", count, reason), quarantineRemedy)
	default:
		d.report("quarantine", Warning, fmt.Sprintf("%s in quarantine, the newest since: %s", wording.Plural(count, "event"), reason), quarantineRemedy)
	}
}

const quarantineRemedy = "see watership quarantine list, mend the mapping, and run watership quarantine rewrite"
