package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

const (
	unstorableInterval = time.Hour
	maxUnexpired       = 1000 // messages that stay in the queue, per call
)

// expiry removes messages from the queue of unstorable messages, as the store removes their
// documents.
type expiry struct{ Config }

// removePeriodically removes expired messages every hour until ctx ends.
func (e expiry) removePeriodically(ctx context.Context) {
	ticker := time.NewTicker(unstorableInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if _, err := e.remove(ctx); err != nil && ctx.Err() == nil {
			e.Logger.Warn("cannot remove expired messages; trying again in an hour", "queue", e.Topology.Unstorable(), "error", err)
		}
	}
}

// remove removes messages from the queue of unstorable messages that are
// older than the retention of their document, if the store has deleted the document. It
// returns the number of removed messages. It reads the queue, which is in the order of
// time, up to the first message that is younger than every retention. Others wait until it returns.
func (e expiry) remove(ctx context.Context) (removed int, err error) {
	queue := e.Topology.Unstorable()
	err = rabbit.DoAlone(ctx, e.Broker, queue, func(ch *amqp.Channel) error {
		for kept := 0; kept < maxUnexpired; {
			d, ok, err := ch.Get(queue, false)
			if err != nil || !ok {
				return err
			}
			expired, err := e.expired(ctx, schemas.FromDelivery(d))
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
		e.Logger.Info("removed messages whose documents have expired", "queue", queue, "messages", removed)
	}
	return removed, nil
}

// errTooYoung reports that no later message of the queue can have expired.
var errTooYoung = errors.New("younger than any retention")

// expired reports whether the document of a message has expired. Messages without a
// document never expire, nor do messages of streams without a retention.
func (e expiry) expired(ctx context.Context, arrived schemas.Envelope) (bool, error) {
	kept, ok := wire.KeptFor(arrived)
	if !ok {
		return false, nil
	}
	age, retention, shortest := e.Now().Sub(kept.Since), e.Retention[kept.Stream], e.shortestRetention()
	if period, isOwn := kept.Stream.Period(); isOwn && period > 0 { // perhaps of a former rule
		retention, shortest = period, min(shortest, period)
	}
	switch {
	case age < shortest:
		return false, errTooYoung
	case retention == 0 || age < retention:
		return false, nil
	}
	found, err := e.Store.Find(ctx, []string{kept.EventID})
	return err == nil && len(found) == 0, err
}

// shortestRetention returns the lowest retention of all streams that have one.
func (e expiry) shortestRetention() time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for _, retention := range e.Retention {
		if retention > 0 {
			shortest = min(shortest, retention)
		}
	}
	return shortest
}
