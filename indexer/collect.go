package indexer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// collect groups deliveries into batches until ctx ends, the deliveries end, or the
// queue has to be consumed again with another prefetch. Deliveries that are in no batch
// by then are requeued when the channel closes, after the collected ones are
// acknowledged. Cancelling the consumer first would make another one active at once,
// which breaks the order.
func (s *session) collect(ctx, workCtx context.Context) error {
	current, progress := s.newBatch(), s.progress[s.queue]
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var d amqp.Delivery // one for all, since addFunc lets it escape
	for first, open := true, true; ; {
		select {
		case d, open = <-s.deliveries:
			if !open {
				s.connectionLost = true
				return s.submitLast(workCtx, current)
			}
			progress.receive()
			if first {
				if err := s.onFirstDelivery(workCtx, d); err != nil {
					return err
				}
				first = false
			}
			if !s.addDelivery(current, &d, timer) {
				continue
			}
		case <-timer.C:
		case <-ctx.Done():
			return s.submitLast(workCtx, current)
		case <-workCtx.Done():
			return context.Cause(workCtx)
		}
		if len(current.items) == 0 {
			continue
		}
		if current.allRedelivered() && s.state.tuner.grow(current.messages, current.bytes()) {
			return nil
		}
		if err := current.encode(workCtx, s.cfg.Format, s.newRetryBudget()); err != nil {
			return err
		}
		if err := s.removeForgedMarks(workCtx, current); err != nil {
			return err
		}
		if err := s.matchStored(workCtx, current); err != nil {
			return err
		}
		retuned := !current.allRedelivered() && s.state.tuner.observe(current.messages, current.bytes())
		if err := s.submit(workCtx, current); err != nil || retuned {
			return err
		}
		current = s.newBatch()
	}
}

// addDelivery adds a message and reports whether the batch is complete.
func (s *session) addDelivery(b *batch, d *amqp.Delivery, timer *time.Timer) bool {
	first := len(b.items) == 0
	if first {
		b.startsRedelivered = d.Redelivered
		timer.Reset(s.cfg.Batch.Wait)
		s.watermarks.begin(s.claim, b)
	}
	if d.Redelivered && b.redeliveredEvents == 0 {
		s.watermarks.hold(s.claim, b)
	}
	s.add(b, d)
	b.countMessage(d)
	s.state.lastSequence = b.items[len(b.items)-1].sequence
	if first {
		s.progress[s.queue].begin(b.items[0].time)
	}
	if b.startsRedelivered {
		timer.Reset(redeliveryWait)
		return !d.Redelivered || b.messages >= s.state.tuner.prefetch || b.documentBytes() >= s.state.tuner.maxBytes
	}
	maxEvents, maxBytes := s.sizer.size()
	return len(b.items) >= maxEvents || b.messages >= s.state.tuner.messagesPerBatch() || b.documentBytes() >= maxBytes
}

// submit passes a batch to the writers. It blocks while these are busy, so that
// unacknowledged messages stay bounded.
func (s *session) submit(workCtx context.Context, b *batch) error {
	if len(b.items) == 0 {
		return nil
	}
	select {
	case s.collected <- b:
		return nil
	case <-workCtx.Done():
		return context.Cause(workCtx)
	}
}

// submitLast passes the incomplete batch to the writers when no more deliveries come.
// A batch of redelivered messages is requeued instead: the missing ones may determine
// its order.
func (s *session) submitLast(workCtx context.Context, b *batch) error {
	if b.startsRedelivered {
		return nil
	}
	if err := b.encode(workCtx, s.cfg.Format, s.newRetryBudget()); err != nil {
		return err
	}
	if err := s.removeForgedMarks(workCtx, b); err != nil {
		return err
	}
	return s.submit(workCtx, b)
}

// newBatch returns an empty batch.
func (s *session) newBatch() *batch {
	select {
	case b := <-s.free:
		return b
	default:
		return &batch{documents: documentBuffer{pool: &s.documentBlocks}, writeResult: make(chan error, 1)}
	}
}
