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
	maxUnexpired       = 1000 // messages that stay and that one look at the queue goes past
)

// retainUnstorable removes what is too old now and then, until ctx ends.
func (x *Indexer) removeExpiredPeriodically(ctx context.Context) {
	ticker := time.NewTicker(unstorableInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if _, err := x.RemoveExpiredUnstorable(ctx); err != nil && ctx.Err() == nil {
			x.cfg.Logger.Warn("removing old messages failed; trying again", "queue", x.cfg.Decoder.Topology.Unstorable(), "error", err)
		}
	}
}

// RemoveExpiredUnstorable removes from the queue of unstorable messages those that are older
// than the retention of their document, if that is gone, and says how many. It goes
// through the queue, which is in the order of time, up to the first that is younger.
// Until it returns nobody else sees the messages before that.
func (x *Indexer) RemoveExpiredUnstorable(ctx context.Context) (removed int, err error) {
	queue := x.cfg.Decoder.Topology.Unstorable()
	err = x.cfg.Broker.Do(ctx, func(ch *amqp.Channel) error {
		for stay := 0; stay < maxUnexpired; {
			d, there, err := ch.Get(queue, false)
			if err != nil || !there {
				return err
			}
			expired, err := x.expired(ctx, schemas.FromDelivery(d))
			switch {
			case errors.Is(err, errTooYoung):
				return nil
			case err != nil:
				return err
			case !expired:
				stay++ // goes back with the end of the channel
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
		return removed, fmt.Errorf("looking for old messages in %s: %w", queue, err)
	}
	if removed > 0 {
		x.cfg.Logger.Info("removed messages whose documents are past their retention", "queue", queue, "messages", removed)
	}
	return removed, nil
}

// errYoung says that no message behind this one can have expired.
var errTooYoung = errors.New("younger than any retention")

// expired is never true of a message that is kept for no document, or for one that is
// kept for ever.
func (x *Indexer) expired(ctx context.Context, arrived schemas.Envelope) (bool, error) {
	kept, is := schemas.KeptFor(arrived)
	if !is {
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

// shortestRetention is that of the streams that are not kept for ever.
func (x *Indexer) shortestRetention() time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for _, retention := range x.cfg.Retention {
		if retention > 0 {
			shortest = min(shortest, retention)
		}
	}
	return shortest
}
