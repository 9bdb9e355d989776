package indexer

import (
	"context"
	"time"
)

const emptyPoll = 50 * time.Millisecond

// Empty indexes the tap copies that a queue holds, until the queue, which nothing
// publishes to any more, has none that wait and none is at hand. What it took last
// may be back in the queue then: call it again while there is something.
func (x *Indexer) Empty(ctx context.Context, queue string, waiting func(context.Context) (int, error)) error {
	draining, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- x.drain(draining, queue, x.takeTapped) }()
	err := x.untilEmpty(ctx, queue, waiting)
	stop()
	<-ended // what it says is only that it was stopped
	return err
}

func (x *Indexer) untilEmpty(ctx context.Context, queue string, waiting func(context.Context) (int, error)) error {
	for {
		messages, err := waiting(ctx)
		if err != nil || x.Lag(queue, messages) == 0 {
			return err
		}
		select {
		case <-time.After(emptyPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
