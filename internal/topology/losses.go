package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// Losses records queues of Watership that were deleted. Its publisher may not repair the topology,
// since the repair waits for it.
type Losses struct {
	Verifier  *wire.Verifier // signs the events
	Publisher Publisher
}

// Record publishes the `dropped` event of a queue.
func (l Losses) Record(ctx context.Context, queue string) error {
	none, now := schemas.Envelope{}, time.Now()
	state := schemas.State{
		Fingerprint: none.Fingerprint(), EventID: "lost:" + watermill.NewULID(), Queue: queue, Time: now,
		Failure: schemas.Failure{Type: l.kind(queue), Message: fmt.Sprintf("queue %s was deleted: %s", queue, l.loss(queue, now))},
	}
	exchange, action := l.Verifier.Topology.Events(), string(schemas.Dropped)
	message := l.Verifier.Sign(exchange, action, wire.DefaultFrameMax.Wrap(none, state))
	return l.Publisher.Publish(ctx, rabbit.Message{Exchange: exchange, RoutingKey: action, Publishing: message})
}

// kind returns whether the record has a gap, or messages themselves are lost.
func (l Losses) kind(queue string) string {
	if slices.Contains(l.Verifier.Topology.Indexed(), queue) {
		return "gap"
	}
	return "deleted_queue"
}

// loss describes the loss of a queue.
func (l Losses) loss(queue string, now time.Time) string {
	until := now.UTC().Format(time.RFC3339)
	switch {
	case queue == l.Verifier.Topology.Log():
		return "events that waited in it are not recorded"
	case slices.Contains(l.Verifier.Topology.Indexed(), queue):
		return "copies of messages that waited in it, or that it would have got until " + until + ", are not recorded"
	case queue == l.Verifier.Topology.Retry():
		return "messages that failed in other consumers and waited in it, or that it would have got until " + until + ", are lost"
	case queue == l.Verifier.Topology.Paused():
		return "routes that were paused by hand go on"
	case strings.HasPrefix(queue, l.Verifier.Topology.Places("")):
		return "messages of one key that wait for another attempt may be handled out of order"
	}
	return "messages that waited in it are lost"
}
