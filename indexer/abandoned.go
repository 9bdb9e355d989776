package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
)

// A process that was killed leaves its entries in the watermarks. If messages are left in
// the queue, the next consumer claims it. Otherwise the entry would hold back readers until
// the next message, so another process releases it: its session gave no sequence to a
// message that is still in the queue. RabbitMQ keeps the messages of a consumer for some time
// after its node or its process is gone, and does not say how many it has: of a queue with a
// single active consumer it counts only the active one, which may be that one.
const (
	abandonedAfter = 10 * time.Second // without a save, if the queue does not exist
	expiredAfter   = 90 * time.Second // without a save; RabbitMQ 4.3 waits a minute for a node

	// maxReadGap is the longest time between two reads of which both count: during an
	// outage of the store no process can save.
	maxReadGap = 2 * readInterval
)

// seenEntry is an entry that another process has not saved since a time.
type seenEntry struct {
	entry       eventstore.Watermark
	since, last time.Time
}

// queueCounts are the numbers of ready messages and of consumers of a queue.
type queueCounts struct {
	messages, consumers int
	missing             bool // there is no queue
}

// isEmpty reports whether a queue certainly has no ready message, if this process consumes it.
// RabbitMQ also answers that a quorum queue has neither messages nor consumers if its leader is
// silent.
func (c queueCounts) isEmpty() bool { return c.missing || c.messages == 0 && c.consumers > 0 }

type inspectFunc func(ctx context.Context, queue string) (queueCounts, error)

// releaseAbandoned releases the entries of sessions that have ended without doing so.
func (w *watermarks) releaseAbandoned(ctx context.Context) error {
	unchanged, err := w.unchangedEntries(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for queue, seen := range unchanged {
		counts, err := w.inspect(ctx, queue)
		since := time.Since(seen.since)
		if err == nil && counts.isEmpty() && (counts.missing || since >= expiredAfter) {
			w.cfg.Logger.Info("releasing the watermark of an indexer that has ended", "queue", queue, "unchanged", since)
			err = w.release(ctx, queue, func(entry eventstore.Watermark) bool { return entry == seen.entry })
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// unchangedEntries returns the entries that other processes may have abandoned.
func (w *watermarks) unchangedEntries(ctx context.Context) (map[string]seenEntry, error) {
	if err := w.requests.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer w.requests.Release(1)
	unchanged := maps.Clone(w.seen)
	maps.DeleteFunc(unchanged, func(_ string, seen seenEntry) bool { return time.Since(seen.since) < abandonedAfter })
	return unchanged, nil
}

// observe records the entries of other processes in the record, which is the latest one.
func (w *watermarks) observe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for queue, entry := range w.record.Queues {
		seen := w.seen[queue]
		if entry.Session == "" || w.claims[queue] != nil {
			delete(w.seen, queue)
			continue
		}
		if seen.entry != entry || now.Sub(seen.last) > maxReadGap {
			seen = seenEntry{entry: entry, since: now}
		}
		seen.last = now
		w.seen[queue] = seen
	}
}

// inspectQueue asks the broker.
func (x *Indexer) inspectQueue(ctx context.Context, queue string) (counts queueCounts, err error) {
	declared := make(chan amqp.Queue, 1) // Do may return while its function runs
	err = x.cfg.Broker.Do(ctx, func(ch *amqp.Channel) error {
		state, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		select {
		case declared <- state:
		default: // a former call
		}
		return err
	})
	if rabbit.IsMissing(err) {
		return queueCounts{missing: true}, nil
	}
	if err != nil {
		return counts, fmt.Errorf("inspecting queue %s: %w", queue, err)
	}
	state := <-declared
	return queueCounts{messages: state.Messages, consumers: state.Consumers}, nil
}
