package doctor

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
)

// maxOrdered is the number of the newest published messages that are looked at.
const maxOrdered = 200

// checkOrder reports that messages have priorities, by which RabbitMQ delivers copies: the
// order of the record is not the order of publishing.
func (r recordChecks) checkOrder(ctx context.Context) {
	if r.store == nil || r.conn == nil || r.Settings.Topology.QueueType == "classic" || r.Topology.ClassicIndex {
		return
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	source, err := r.source(ctx)
	if err != nil {
		return // checkWatermarks reports it
	}
	selection := eventstore.Selection{
		Query: kql.And{kql.FieldIs("watership.source", source), kql.FieldIs("event.action", "published")},
		Order: eventstore.NewestFirst, Limit: maxOrdered, WithoutBody: true,
	}
	read, byPriority := 0, 0
	for e, err := range storeread.Readable(r.store.Events(ctx, selection)) {
		if err != nil {
			r.report(OrderUnknown, Warning, err.Error(), "")
			return
		}
		read++
		if e.ByPriority {
			byPriority++
		}
	}
	if byPriority > 0 {
		r.report(PrioritiesReorder, Warning,
			fmt.Sprintf("%d of the newest %d published messages have a priority, by which RabbitMQ delivers their copies: they may be recorded before earlier ones, and these late", byPriority, read),
			"if RabbitMQ has one node, set tap.queue_type: classic, stop serve, and run watership setup; else see Order and repetition in docs/record.md")
	}
}
