package indexer

import (
	"context"
	"time"
)

const drainPoll = 50 * time.Millisecond

// Drain indexes the tap copies that a queue holds, until the queue, which nothing
// publishes to any more, has none that wait and none is at hand. What it took last
// may be back in the queue then: call it again while there is something.
func (x *Indexer) Drain(ctx context.Context, queue string, waiting func(context.Context) (int, error)) error {
	draining, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- x.consume(draining, queue, x.addTapped) }()
	err := x.waitUntilDrained(ctx, queue, waiting)
	stop()
	<-ended // what it says is only that it was stopped
	return err
}

func (x *Indexer) waitUntilDrained(ctx context.Context, queue string, waiting func(context.Context) (int, error)) error {
	for {
		messages, err := waiting(ctx)
		if err != nil || x.Lag(queue, messages) == 0 {
			return err
		}
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
