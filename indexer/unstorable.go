package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

const (
	unstorableInterval = time.Hour
	maxUnexpired       = 1000 // messages that stay in the queue, per call
)

// removeExpiredPeriodically removes expired messages every hour until ctx ends.
func (x *Indexer) removeExpiredPeriodically(ctx context.Context) {
	ticker := time.NewTicker(unstorableInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if _, err := x.removeExpired(ctx); err != nil && ctx.Err() == nil {
			x.cfg.Logger.Warn("cannot remove expired messages; trying again in an hour", "queue", x.cfg.Decoder.Topology.Unstorable(), "error", err)
		}
	}
}

// removeExpired removes messages from the queue of unstorable messages that are
// older than the retention of their document, if the store has deleted the document. It
// returns the number of removed messages. It reads the queue, which is in the order of
// time, up to the first message that is younger than every retention. Other consumers do
// not receive the messages that it has read until it returns.
func (x *Indexer) removeExpired(ctx context.Context) (removed int, err error) {
	queue := x.cfg.Decoder.Topology.Unstorable()
	err = x.cfg.Broker.Do(ctx, func(ch *amqp.Channel) error {
		for kept := 0; kept < maxUnexpired; {
			d, ok, err := ch.Get(queue, false)
			if err != nil || !ok {
				return err
			}
			expired, err := x.expired(ctx, schemas.FromDelivery(d))
			switch {
			case errors.Is(err, errTooYoung):
				return nil
			case err != nil:
				return err
			case !expired:
				kept++ // requeued when the channel closes
				continue
			}
			if err := d.Ack(false); err != nil {
				return err
			}
			removed++
		}
		return nil
	})
	if err != nil {
		return removed, fmt.Errorf("removing expired messages from queue %s: %w", queue, err)
	}
	if removed > 0 {
		x.cfg.Logger.Info("removed messages whose documents have expired", "queue", queue, "messages", removed)
	}
	return removed, nil
}

// errTooYoung reports that no later message of the queue can have expired.
var errTooYoung = errors.New("younger than any retention")

// expired reports whether the document of a message has expired. Messages without a
// document never expire, nor do messages of streams without a retention.
func (x *Indexer) expired(ctx context.Context, arrived schemas.Envelope) (bool, error) {
	kept, ok := arrived.KeptFor()
	if !ok {
		return false, nil
	}
	age, retention := x.cfg.Now().Sub(kept.Since), x.cfg.Retention[kept.Stream]
	switch {
	case age < x.shortestRetention():
		return false, errTooYoung
	case retention == 0 || age < retention:
		return false, nil
	}
	found, err := x.cfg.Store.Find(ctx, []string{kept.EventID})
	return err == nil && len(found) == 0, err
}

// shortestRetention returns the lowest retention of all streams that have one.
func (x *Indexer) shortestRetention() time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for _, retention := range x.cfg.Retention {
		if retention > 0 {
			shortest = min(shortest, retention)
		}
	}
	return shortest
}
