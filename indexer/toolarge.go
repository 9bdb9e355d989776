package indexer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// setAside keeps a message that is too large for the store in a queue, and
// makes its document one without the body, which says so.
func (x *Indexer) moveToUnstorable(ctx context.Context, it *item) error {
	if it.event.BodyIn != schemas.BodyHere {
		return fmt.Errorf("event %s is too large for the store even without its body", it.event.EventID)
	}
	err := x.cfg.Publisher.Publish(ctx, rabbit.Message{
		Exchange: x.cfg.Decoder.Topology.Direct(), RoutingKey: x.cfg.Decoder.Topology.Unstorable(),
		Publishing: schemas.WrapKept(it.event, x.cfg.Now()),
	})
	if err != nil {
		return fmt.Errorf("setting aside event %s, too large for the store: %w", it.event.EventID, err)
	}
	x.cfg.Logger.Warn("a message is too large for the store; kept it in a queue",
		"event", it.event.EventID, "bytes", it.event.BodySize, "queue", x.cfg.Decoder.Topology.Unstorable())
	x.metrics.tooLarge.Inc()
	event := it.event
	event.BodyIn = schemas.BodyInUnstorable
	x.replace(it, event)
	return nil
}
