package indexer

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/internal/rabbit"
)

const (
	writers   = 2                // bulk requests in flight, of one queue
	stopGrace = 10 * time.Second // to write what is at hand
)

// session indexes what one consumer receives: batches are collected in order,
// written side by side, and acknowledged in order. It returns nil when the
// session is over or is to begin anew, and an error when the messages should
// go back for a while. Every goroutine of it has ended then. It also says which
// sequences it acknowledged.
func (x *Indexer) session(ctx context.Context, consumer *rabbit.Session, queue string, take take, flow *flow) (spans, error) {
	work, cancel := outlive(ctx, x.stopGrace)
	defer cancel()
	group, work := errgroup.WithContext(work)
	s := &session{
		Indexer: x, consumer: consumer, queue: queue, take: take, flow: flow, group: group,
		ready: make(chan *batch), inFlight: make(chan *batch, writers), free: make(chan *batch, prefetchBatches),
	}
	group.Go(func() error {
		defer close(s.ready)
		return s.collect(ctx, work)
	})
	group.Go(func() error {
		defer close(s.inFlight)
		return s.write(work)
	})
	group.Go(func() error { return s.acknowledge(work) })
	err := group.Wait()
	if s.acknowledged == 0 || s.lost {
		return nil, err
	}
	return spans{{After: s.newest, UpTo: s.acknowledged}}, err
}

// session is one life of the consumer of one queue.
type session struct {
	*Indexer
	consumer *rabbit.Session
	queue    string
	take     take
	flow     *flow // the collector's
	group    *errgroup.Group

	// What follows is the collector's.
	lost   bool            // the broker, and with it acknowledgements that were sent
	newest int64           // sequence of our source in the store when the first message came
	seen   map[string]bool // ids that follow from the content, of what came again

	acknowledged int64 // the highest sequence of what was; of the acknowledger

	ready    chan *batch // collected
	inFlight chan *batch // being written, in order
	free     chan *batch // done, to be used again
}

// stopGrace is how long to write what is at hand: a store that does not take it
// is not waited for.
func (x *Indexer) stopGrace() time.Duration {
	if x.Refused() != nil {
		return 0
	}
	return stopGrace
}

// outlive is a context that ends a while after ctx does.
func outlive(ctx context.Context, grace func() time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace(), cancel) })
	return longer, func() { stop(); cancel() }
}

// write settles batches side by side and hands them on in order.
func (s *session) write(ctx context.Context) error {
	slots := make(chan struct{}, writers)
	for b := range s.ready {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		bytes := min(2*int64(len(b.sources)), int64(s.cfg.Memory/2)) // the request has a copy
		if err := s.writing.Acquire(ctx, bytes); err != nil {
			return err
		}
		s.group.Go(func() error {
			s.metrics.inFlight.Add(float64(bytes))
			b.written <- s.settle(ctx, b)
			s.metrics.inFlight.Sub(float64(bytes))
			s.writing.Release(bytes)
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
func (s *session) acknowledge(ctx context.Context) error {
	for b := range s.inFlight {
		if err := <-b.written; err != nil {
			return err
		}
		switch err := s.consumer.Ack(b.last, true); {
		case err == nil:
			s.acknowledged = max(s.acknowledged, b.highest())
		case !errors.Is(err, rabbit.ErrSessionEnded):
			return err
		}
		newest := b.items[len(b.items)-1].event.Time
		s.metrics.indexed(s.queue, b, newest)
		s.progress[s.queue].acknowledged(b.messages, newest)
		b.reset()
		select {
		case s.free <- b:
		default:
		}
	}
	return nil
}
