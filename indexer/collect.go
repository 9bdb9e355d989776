package indexer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// collect groups deliveries into batches until ctx ends or they do, or until
// the queue is to be consumed anew. What was handed out and not taken by then
// goes back when the channel closes, which is after what was taken is
// acknowledged. Cancelling the consumer instead would make another one active
// at once, and the order would be lost.
func (s *session) collect(ctx, work context.Context) error {
	current, progress := s.newBatch(nil), s.progress[s.queue]
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for first := true; ; {
		select {
		case d, open := <-s.consumer.Deliveries:
			if !open {
				s.connectionLost = true
				return s.flushLast(work, current)
			}
			progress.receive()
			if first {
				if err := s.onFirstDelivery(work, d); err != nil {
					return err
				}
				first = false
			}
			if !s.addDelivery(current, d, timer) {
				continue
			}
		case <-timer.C:
		case <-ctx.Done():
			return s.flushLast(work, current)
		case <-work.Done():
			return context.Cause(work)
		}
		if len(current.items) == 0 {
			continue
		}
		if current.allRedelivered() && s.tuner.grow(current.messages, current.bodies) {
			return nil
		}
		if err := s.removeForgedMarks(work, current); err != nil {
			return err
		}
		if err := s.matchStored(work, current); err != nil {
			return err
		}
		anew := !current.allRedelivered() && s.tuner.observe(current.messages, current.bodies)
		next := s.newBatch(current)
		if err := s.flush(work, current); err != nil || anew {
			return err
		}
		current = next
	}
}

// fill adds a message and says whether the batch is full.
func (s *session) addDelivery(b *batch, d amqp.Delivery, timer *time.Timer) bool {
	if len(b.items) == 0 {
		b.started = time.Now()
		b.startsRedelivered = d.Redelivered
		timer.Reset(s.cfg.Batch.Wait)
	}
	s.add(b, d)
	b.countMessage(d)
	s.tuner.lastSequence = b.items[len(b.items)-1].event.Sequence
	if b.startsRedelivered {
		timer.Reset(redeliveryWait)
		return !d.Redelivered || b.messages >= s.tuner.prefetch || len(b.sources) >= s.cfg.Memory/2
	}
	events, bytes := s.sizer.size()
	return len(b.items) >= events || b.messages >= s.tuner.messagesPerBatch() || len(b.sources) >= bytes
}

// flush hands a batch on. It waits while those before it are being written, so
// that no more is received than is acknowledged.
func (s *session) flush(work context.Context, b *batch) error {
	if len(b.items) == 0 {
		return nil
	}
	select {
	case s.collected <- b:
		return nil
	case <-work.Done():
		return context.Cause(work)
	}
}

// flushWhole hands on what is at hand when no more will come. What came again goes
// back instead: its order may follow from what did not come.
func (s *session) flushLast(work context.Context, b *batch) error {
	if b.startsRedelivered {
		return nil
	}
	if err := s.removeForgedMarks(work, b); err != nil {
		return err
	}
	return s.flush(work, b)
}

// empty is a batch with room for half as much again as the one before had:
// batches grow, and to move what is in one costs as much as to encode it.
func (s *session) newBatch(before *batch) *batch {
	b := &batch{written: make(chan error, 1)}
	select {
	case b = <-s.free:
	default:
	}
	if before != nil {
		b.grow(len(before.items)*3/2, min(len(before.sources)*3/2, largestKept))
	}
	return b
}
