package indexer

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/internal/rabbit"
)

const (
	writers          = 2                // bulk requests in flight, of one queue
	maxShutdownGrace = 10 * time.Second // to write what is at hand
)

// session indexes what one consumer receives: batches are collected in order,
// written side by side, and acknowledged in order. It returns nil when the
// session is over or is to begin anew, and an error when the messages should
// go back for a while. Every goroutine of it has ended then. It also says which
// sequences it acknowledged.
func (x *Indexer) runSession(ctx context.Context, consumer *rabbit.Session, queue string, take addFunc, flow *prefetchTuner) (sequenceRanges, error) {
	work, cancel := withGrace(ctx, x.shutdownGrace)
	defer cancel()
	group, work := errgroup.WithContext(work)
	s := &session{
		Indexer: x, consumer: consumer, queue: queue, add: take, tuner: flow, group: group,
		collected: make(chan *batch), inFlight: make(chan *batch, writers), free: make(chan *batch, prefetchBatches),
	}
	group.Go(func() error {
		defer close(s.collected)
		return s.collect(ctx, work)
	})
	group.Go(func() error {
		defer close(s.inFlight)
		return s.writeBatches(work)
	})
	group.Go(func() error { return s.acknowledgeBatches(work) })
	err := group.Wait()
	if s.acknowledged == 0 || s.connectionLost {
		return nil, err
	}
	return sequenceRanges{{After: s.newestStored, UpTo: s.acknowledged}}, err
}

// session is one life of the consumer of one queue.
type session struct {
	*Indexer
	consumer *rabbit.Session
	queue    string
	add      addFunc
	tuner    *prefetchTuner // the collector's
	group    *errgroup.Group

	// What follows is the collector's.
	connectionLost bool            // the broker, and with it acknowledgements that were sent
	newestStored   int64           // sequence of our source in the store when the first message came
	seenIDs        map[string]bool // ids that follow from the content, of what came again

	acknowledged int64 // the highest sequence of what was; of the acknowledger

	collected chan *batch // collected
	inFlight  chan *batch // being written, in order
	free      chan *batch // done, to be used again
}

// stopGrace is how long to write what is at hand: a store that does not take it
// is not waited for.
func (x *Indexer) shutdownGrace() time.Duration {
	if x.StoreError() != nil {
		return 0
	}
	return maxShutdownGrace
}

// outlive is a context that ends a while after ctx does.
func withGrace(ctx context.Context, grace func() time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace(), cancel) })
	return longer, func() { stop(); cancel() }
}

// write settles batches side by side and hands them on in order.
func (s *session) writeBatches(ctx context.Context) error {
	slots := make(chan struct{}, writers)
	for b := range s.collected {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		bytes := min(2*int64(len(b.sources)), int64(s.cfg.Memory/2)) // the request has a copy
		if err := s.writeMemory.Acquire(ctx, bytes); err != nil {
			return err
		}
		s.group.Go(func() error {
			s.metrics.inFlight.Add(float64(bytes))
			b.written <- s.writeBatch(ctx, b)
			s.metrics.inFlight.Sub(float64(bytes))
			s.writeMemory.Release(bytes)
			<-slots
			return nil
		})
		select {
		case s.inFlight <- b:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// acknowledge acknowledges batches in order once they are written. Those
// behind one that could not be written go back to the queue with it.
func (s *session) acknowledgeBatches(ctx context.Context) error {
	for b := range s.inFlight {
		if err := <-b.written; err != nil {
			return err
		}
		switch err := s.consumer.Ack(b.last, true); {
		case err == nil:
			s.acknowledged = max(s.acknowledged, b.highestSequence())
		case !errors.Is(err, rabbit.ErrSessionEnded):
			return err
		}
		newest := b.items[len(b.items)-1].event.Time
		s.metrics.observeBatch(s.queue, b, newest)
		s.progress[s.queue].acknowledge(b.messages, newest)
		b.reset()
		select {
		case s.free <- b:
		default:
		}
	}
	return nil
}
