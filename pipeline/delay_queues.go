package pipeline

import (
	"context"
	"time"
)

// delayQueues declares one delay queue at a time. RabbitMQ 3.10 does not expire the messages of
// a quorum queue that several channels have declared at once, until something else happens in the
// queue, or it answers that the queue is inaccessible: as when many messages need a new delay.
type delayQueues struct {
	by        delayDeclarer
	declaring chan struct{} // a token for the running declaration
}

func newDelayQueues(by delayDeclarer) *delayQueues {
	return &delayQueues{by, make(chan struct{}, 1)}
}

// DeclareDelay declares the delay queue of d.
func (q *delayQueues) DeclareDelay(ctx context.Context, d time.Duration) error {
	select {
	case q.declaring <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-q.declaring }()
	return q.by.DeclareDelay(ctx, d)
}
