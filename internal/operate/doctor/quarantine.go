package doctor

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/quarantine"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/storeread"
)

// maxQuarantined is the number of quarantined events that are counted.
const maxQuarantined = 1000

// checkQuarantine reports events whose documents the store refused: searches by their headers
// and bodies do not find them.
func (r recordChecks) checkQuarantine(ctx context.Context) {
	if r.store == nil {
		return
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	selection := eventstore.Selection{
		Query: quarantine.Query(kql.All{}), Order: eventstore.NewestFirst, Limit: maxQuarantined, WithoutBody: true,
	}
	refused, noEvents, reason := 0, 0, ""
	for e, err := range storeread.Readable(r.store.Events(ctx, selection)) {
		if err != nil {
			r.report(QuarantineUnknown, Warning, err.Error(), "")
			return
		}
		if _, ok := e.Refused(); !ok {
			noEvents++
			continue
		}
		if refused++; refused == 1 {
			reason = e.Failure.Message
		}
	}
	count := wording.Plural(refused, "event")
	if refused+noEvents == maxQuarantined {
		count += " or more"
	}
	switch {
	case refused > 0:
		r.report(EventsInQuarantine, Warning, fmt.Sprintf("%s in quarantine, the newest since: %s", count, reason), quarantineRemedy)
	case noEvents > 0:
		r.reportOK(QuarantineCheck, "the store refused no document; %s in the log, and no event", wording.Plural(noEvents, "message"))
	default:
		r.reportOK(QuarantineCheck, "the store refused no document")
	}
}

const quarantineRemedy = "see watership quarantine list, mend the mapping, and run watership quarantine rewrite"
