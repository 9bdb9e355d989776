package indexer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

const (
	maxBulkRequests  = 2                // bulk requests in flight, of one queue
	maxShutdownGrace = 10 * time.Second // to write the collected batches
)

// runSession indexes the deliveries of one consumer: it collects batches in order,
// writes them concurrently, and acknowledges them in order. It returns nil when ctx
// ended or the prefetch changed, and an error when the messages should be requeued for a
// while. All its goroutines have ended by then. It also returns the acknowledged
// sequences.
func (x *Indexer) runSession(ctx context.Context, deliveries <-chan amqp.Delivery, queue string, add addFunc, state *queueState) (sequenceRanges, error) {
	workCtx, cancel := withGrace(ctx, x.shutdownGrace)
	defer cancel(nil)
	group, workCtx := errgroup.WithContext(workCtx)
	s := &session{
		Indexer: x, deliveries: deliveries, queue: queue, add: add, state: state, group: group, claim: newClaim(queue, cancel),
		collected: make(chan *batch), inFlight: make(chan *batch, maxBulkRequests), free: make(chan *batch, prefetchBatches),
	}
	group.Go(func() error {
		defer close(s.collected)
		return s.collect(ctx, workCtx)
	})
	group.Go(func() error {
		defer close(s.inFlight)
		return s.writeBatches(workCtx)
	})
	group.Go(func() error { return s.acknowledgeBatches(workCtx) })
	err := group.Wait()
	x.watermarks.end(ctx, s.claim)
	if s.acknowledged == 0 || s.connectionLost {
		return nil, err
	}
	return sequenceRanges{{After: s.newestStored, UpTo: s.acknowledged}}, err
}

// queueState is the state of a queue that outlives a session: consume uses it between sessions,
// and collect within one.
type queueState struct {
	tuner        *prefetchTuner
	lastSequence int64          // given to an event of the queue by this process; 0: none yet
	acknowledged sequenceRanges // of sessions whose acknowledgements the broker received
}

// session is one consumer on one channel, from its start to its end.
type session struct {
	*Indexer
	deliveries <-chan amqp.Delivery
	queue      string
	add        addFunc
	state      *queueState
	group      *errgroup.Group
	claim      *claim

	// Only collect writes these, before it passes on a batch that depends on them.
	connectionLost bool            // sent acknowledgements may be lost as well
	newestStored   int64           // highest sequence of the source in the store, at the first message
	seenIDs        map[string]bool // content-based ids of redelivered events

	acknowledged int64 // highest acknowledged sequence; only acknowledgeBatches uses it

	collected chan *batch
	inFlight  chan *batch // being written, in order
	free      chan *batch // for reuse
}

// shutdownGrace returns the time to write the collected batches after ctx has ended:
// none if the store fails anyway.
func (x *Indexer) shutdownGrace() time.Duration {
	if x.StoreError() != nil {
		return 0
	}
	return maxShutdownGrace
}

// withGrace returns a context that ends some time after ctx.
func withGrace(ctx context.Context, grace func() time.Duration) (context.Context, context.CancelCauseFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace(), func() { cancel(nil) }) })
	return longer, func(cause error) { stop(); cancel(cause) }
}

// writeBatches writes batches concurrently and passes them on in order.
func (s *session) writeBatches(ctx context.Context) error {
	slots := make(chan struct{}, maxBulkRequests)
	for b := range s.collected {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		bytes := int64(min(b.documents.bytes, s.cfg.Memory/2))
		if err := s.writeMemory.Acquire(ctx, bytes); err != nil {
			return err
		}
		s.group.Go(func() error {
			s.metrics.inFlight.Add(float64(bytes))
			b.writeResult <- s.writeBatch(ctx, b)
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

// acknowledgeBatches acknowledges written batches in order. After a batch that failed it
// acknowledges no more, so that all later messages are requeued with it.
func (s *session) acknowledgeBatches(ctx context.Context) error {
	for b := range s.inFlight {
		if err := <-b.writeResult; err != nil {
			return err
		}
		s.watermarks.written(s.claim)
		if err := b.acknowledger.Ack(b.last, true); err == nil { // else the channel is lost, and the broker redelivers
			s.acknowledged = max(s.acknowledged, b.highestSequence())
		}
		newest := b.items[len(b.items)-1].time
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
