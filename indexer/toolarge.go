package indexer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// moveToUnstorable publishes a message that is too large for the store to the queue of
// unstorable messages, and replaces its document by one without the body, which names
// that queue.
func (x *Indexer) moveToUnstorable(ctx context.Context, it *item) error {
	event, err := it.event()
	if err != nil {
		return err
	}
	if event.BodyIn != schemas.BodyHere {
		return fmt.Errorf("event %s is too large for the store even without its body", event.EventID)
	}
	queue := x.cfg.Topology.Unstorable()
	err = x.cfg.Publisher.Publish(ctx, x.cfg.Topology.Direct(), queue, wire.WrapKept(event, it.document.Stream, x.cfg.Now()))
	if err != nil {
		return fmt.Errorf("moving event %s, which is too large for the store, to queue %s: %w", event.EventID, queue, err)
	}
	x.cfg.Logger.Warn("a message is too large for the store; moved it to a queue",
		"event", event.EventID, "bytes", event.BodySize, "queue", queue)
	x.metrics.tooLarge.Inc()
	event.BodyIn = schemas.BodyInUnstorable
	it.replace(x.cfg.Format, event)
	return nil
}
