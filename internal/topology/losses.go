package pipeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// lostQueues records queues of Watership that were deleted while messages flow. Its publisher may not
// repair the topology, since the repair waits for it.
type lostQueues struct {
	topology  schemas.Topology
	verifier  *schemas.Verifier
	publisher topology.Publisher
	frameMax  func() schemas.FrameMax
}

// record publishes the `dropped` event of a queue.
func (l lostQueues) record(ctx context.Context, queue string) error {
	none, now := schemas.Envelope{}, time.Now()
	state := schemas.State{
		Fingerprint: none.Fingerprint(), EventID: "lost:" + watermill.NewULID(), Queue: queue, Time: now,
		Failure: schemas.Failure{Type: l.kind(queue), Message: fmt.Sprintf("queue %s was deleted: %s", queue, l.loss(queue, now))},
	}
	exchange, action := l.topology.Events(), string(schemas.Dropped)
	message := l.verifier.Sign(exchange, action, l.frameMax().Wrap(none, state))
	return l.publisher.Publish(ctx, rabbit.Message{Exchange: exchange, RoutingKey: action, Publishing: message})
}

// kind returns whether the record has a gap, or messages themselves are lost.
func (l lostQueues) kind(queue string) string {
	switch queue {
	case l.topology.Index(), l.topology.IndexLate(), l.topology.Log():
		return "gap"
	}
	return "deleted_queue"
}

// loss says what is lost with a queue.
func (l lostQueues) loss(queue string, now time.Time) string {
	until := now.UTC().Format(time.RFC3339)
	switch {
	case queue == l.topology.Index(), queue == l.topology.IndexLate():
		return "copies of messages that waited in it, or that it would have got until " + until + ", are not recorded"
	case queue == l.topology.Log():
		return "events that waited in it are not recorded"
	case queue == l.topology.Retry():
		return "messages that failed in other consumers and waited in it, or that it would have got until " + until + ", are lost"
	case queue == l.topology.Paused():
		return "routes that were paused by hand go on"
	case strings.HasPrefix(queue, l.topology.Places("")):
		return "messages of one key that wait for another attempt may be handled out of order"
	}
	return "messages that waited in it are lost"
}
