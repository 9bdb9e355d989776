package indexer

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/internal/rabbit"
)

const (
	writers   = 2                // bulk requests in flight
	stopGrace = 10 * time.Second // to write what is at hand
)

// batch is written by one request and acknowledged by one frame.
type batch struct {
	items   []item
	bytes   int
	last    uint64 // delivery tag of its newest message
	written chan error
}

// session indexes what one consumer receives: batches are collected in order,
// written side by side, and acknowledged in order. It returns nil when the
// session is over, and an error when the messages should go back.
func (x *Indexer) session(ctx context.Context, session *rabbit.Session, take take) error {
	highest, err := x.cfg.Store.HighestSequence(ctx)
	if err != nil {
		return err
	}
	x.sequence.raise(highest)

	work, cancel := outlive(ctx, stopGrace)
	defer cancel()
	group, work := errgroup.WithContext(work)
	ready, inFlight := make(chan *batch), make(chan *batch, writers)
	group.Go(func() error {
		defer close(ready)
		return x.collect(ctx, work, session.Deliveries, take, ready)
	})
	group.Go(func() error {
		defer close(inFlight)
		return x.write(work, ready, inFlight)
	})
	group.Go(func() error { return acknowledge(work, session, inFlight) })
	return group.Wait()
}

// outlive is a context that ends a while after ctx does.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}

// collect groups deliveries into batches until ctx ends or they do.
func (x *Indexer) collect(ctx, work context.Context, deliveries <-chan amqp.Delivery, take take, ready chan<- *batch) error {
	current := &batch{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	flush := func() error {
		if len(current.items) == 0 {
			return nil
		}
		full := current
		current = &batch{}
		select {
		case ready <- full:
			return nil
		case <-work.Done():
			return context.Cause(work)
		}
	}
	for {
		select {
		case d, open := <-deliveries:
			if !open {
				return flush()
			}
			if len(current.items) == 0 {
				timer.Reset(x.cfg.Batch.Wait)
			}
			current.add(x.item(d, take(d)), d)
			if len(current.items) < x.cfg.Batch.Events && current.bytes < x.cfg.Batch.Bytes {
				continue
			}
		case <-timer.C:
		case <-ctx.Done():
			return flush()
		case <-work.Done():
			return context.Cause(work)
		}
		if err := flush(); err != nil {
			return err
		}
	}
}

func (b *batch) add(it item, d amqp.Delivery) {
	b.items = append(b.items, it)
	b.bytes += len(it.document.Source)
	b.last = d.DeliveryTag
}

// write settles batches side by side and hands them on in order.
func (x *Indexer) write(ctx context.Context, ready <-chan *batch, inFlight chan<- *batch) error {
	slots := make(chan struct{}, writers)
	for b := range ready {
		slots <- struct{}{}
		b.written = make(chan error, 1)
		go func() {
			b.written <- x.settle(ctx, b.items)
			<-slots
		}()
		select {
		case inFlight <- b:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), <-b.written)
		}
	}
	return nil
}

// acknowledge acknowledges batches in order once they are written.
func acknowledge(ctx context.Context, session *rabbit.Session, inFlight <-chan *batch) error {
	for b := range inFlight {
		if err := <-b.written; err != nil {
			return err
		}
		if err := session.Ack(b.last, true); err != nil && !errors.Is(err, rabbit.ErrSessionEnded) {
			return err
		}
	}
	return ctx.Err()
}
