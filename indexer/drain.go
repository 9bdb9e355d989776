package indexer

import (
	"context"
	"errors"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

const drainPoll = 50 * time.Millisecond

// Drain indexes the tap copies, or the lifecycle events, in a queue of tap copies or of events
// to which nothing is published any more. It returns when the queue is empty and all its messages are acknowledged; waiting returns the number of
// ready messages. The last messages may be requeued as Drain stops: call it until the
// queue stays empty.
func (x *Indexer) Drain(ctx context.Context, queue string, waiting func(context.Context) (int, error)) error {
	closing, err := x.connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(x.drain(ctx, queue, waiting), closing())
}

func (x *Indexer) drain(ctx context.Context, queue string, waiting func(context.Context) (int, error)) error {
	defer x.watermarks.start(ctx)()
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- x.consume(consuming, queue) }()
	err := x.waitUntilDrained(ctx, queue, waiting)
	stop()
	<-ended // its error is the cancellation
	return err
}

func (x *Indexer) waitUntilDrained(ctx context.Context, queue string, waiting func(context.Context) (int, error)) error {
	for {
		messages, err := waiting(ctx)
		if err != nil || x.Lag(queue, messages) == 0 {
			return err
		}
		if err := backoff.Sleep(ctx, drainPoll); err != nil {
			return err
		}
	}
}
