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
func (d *doctor) checkOrder(ctx context.Context) {
	if d.store == nil || d.conn == nil || d.Settings.Topology.QueueType == "classic" || d.Topology.ClassicIndex {
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	source, err := d.source(ctx)
	if err != nil {
		return // checkWatermarks reports it
	}
	selection := eventstore.Selection{
		Query: kql.And{kql.FieldIs("watership.source", source), kql.FieldIs("event.action", "published")},
		Order: eventstore.NewestFirst, Limit: maxOrdered, WithoutBody: true,
	}
	read, byPriority := 0, 0
	for e, err := range d.store.Events(ctx, selection) {
		if storeread.EndsRead(err) {
			d.report("order", Warning, err.Error(), "")
			return
		}
		read++
		if e.ByPriority {
			byPriority++
		}
	}
	if byPriority > 0 {
		d.report("order", Warning,
			fmt.Sprintf("%d of the newest %d published messages have a priority, by which RabbitMQ delivers their copies: they may be recorded before earlier ones, and these late", byPriority, read),
			"if RabbitMQ has one node, set tap.queue_type: classic, stop serve, and run watership setup; else see Order and repetition in docs/operations.md")
	}
}
