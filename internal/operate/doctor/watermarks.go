package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// maxWatermarkAge is the age from which a watermark is reported that no process saves: a live
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
	r.checkBrokers(ctx, watermarks)
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

// otherBrokerAge is the age of the last save of another broker up to which it is in use: it saves each second while it
// records.
const otherBrokerAge = time.Minute

// checkBrokers looks for another RabbitMQ that records with the same source: the indexers of both take the queues
// from each other, and their events are in one order.
func (r recordChecks) checkBrokers(ctx context.Context, watermarks eventstore.Watermarks) {
	own, err := r.conn.Source(ctx)
	if err != nil { // a broker without a name
		return
	}
	for _, other := range slices.Sorted(maps.Keys(watermarks.Brokers)) {
		if other != own && time.Since(watermarks.Brokers[other]) < otherBrokerAge {
			r.report(SourceShared, Error, fmt.Sprintf("another RabbitMQ, %s, records with the source %s, too: the indexers of both take the queues from each other", other, watermarks.Source),
				"give each RabbitMQ a source of its own (setting source), or stop watership serve at one of them")
		}
	}
}
