package indexer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// againWait is how long the broker takes at most to hand out the next message
// that comes again, if there is one.
const redeliveryWait = time.Second

// othersWait is how long a bulk request of a process that is gone takes at most
// until what it stores is found.
const lateWriteWait = time.Second

// begin is when the first message comes: until then this consumer may have waited
// for long behind one that was active. If that one was another process's, which is
// gone, what it sent may be on its way through the store. Those of other sources
// tell nothing of our queue: they may have gone on while nobody consumed it.
func (s *session) onFirstDelivery(ctx context.Context, d amqp.Delivery) (err error) {
	own := s.tuner.lastSequence
	if err := s.raiseSequence(ctx); err != nil {
		return err
	}
	if s.newestStored, err = s.cfg.Store.HighestSequenceOf(ctx, s.cfg.Decoder.Source); err != nil {
		return err
	}
	former, err := s.readHandover(ctx, s.queue)
	if err != nil {
		return err
	}
	s.tuner.acknowledged = s.tuner.acknowledged.merge(former, s.oldestRedeliverable())
	if !d.Redelivered || own > 0 && s.newestStored <= own {
		return nil
	}
	return new(backoff).wait(ctx, lateWriteWait)
}

// oldestSame is the lowest sequence of a stored event whose message can come again.
func (s *session) oldestRedeliverable() int64 {
	return s.newestStored - redeliveryWindow.Microseconds()
}

// recognise finds what of a batch is stored, and gives the rest its places, before
// more is taken: that is to be behind.
func (s *session) matchStored(ctx context.Context, b *batch) (err error) {
	if b.redeliveredEvents == 0 {
		return nil
	}
	s.restoreQueueOrder(b)
	if b.stored, err = s.lookupStored(ctx, b.items); err != nil {
		return err
	}
	s.separateDuplicates(b.items, b.stored)
	s.restoreSequences(b, s.newestStored-s.maxInFlightSpan())
	return nil
}

// known looks for the redelivered events in the store, and gives the sequences of
// those that it has: an id is unique only within a backing index, and an older one
// may hold it. An id with the sequence in it was made just now.
func (x *Indexer) lookupStored(ctx context.Context, items []item) (map[string]int64, error) {
	var ids []string
	for i := range items {
		if it := &items[i]; it.mayBeStored() {
			ids = append(ids, it.document.ID)
		}
	}
	return x.lookupSequences(ctx, x.newRetryBudget(), ids)
}

// sameFor is how far a message that comes again can be behind the newest of its
// source in the store when it is there already. RabbitMQ waits half as long for an
// acknowledgement (consumer_timeout, Consumers guide).
const redeliveryWindow = time.Hour

// separateDuplicates makes events of their own of messages that share an id, but are
// not the stored one again: one copy comes again once, and an acknowledged one, or
// one that is stored since long ago, does not.
func (s *session) separateDuplicates(items []item, known map[string]int64) {
	if s.seenIDs == nil {
		s.seenIDs = map[string]bool{}
	}
	for i := range items {
		it := &items[i]
		if !it.redelivered || !it.event.IDFromContent() {
			continue
		}
		id := it.document.ID
		sequence, stored := known[id]
		if s.seenIDs[id] || stored && (sequence < s.oldestRedeliverable() || s.tuner.acknowledged.contains(sequence)) {
			s.replace(it, it.event.Second())
		}
		s.seenIDs[id] = true
	}
}

// unknown leaves out the redelivered events that are stored.
func dropStored(items []*item, known map[string]int64) []*item {
	if len(known) == 0 {
		return items
	}
	var rest []*item
	for _, it := range items {
		if _, stored := known[it.document.ID]; !stored || !it.mayBeStored() {
			rest = append(rest, it)
		}
	}
	return rest
}

func (it *item) mayBeStored() bool {
	return it.redelivered && (it.event.Action != schemas.Published || it.event.IDFromContent())
}

// deliverAgain delivers, in order, what may be more than one request should have.
func (s *session) writeInOrder(ctx context.Context, patience *retryBudget, pending []*item) error {
	for len(pending) > 0 {
		n := s.sizer.countFitting(pending)
		if err := s.writeItems(ctx, patience, pending[:n]); err != nil {
			return err
		}
		pending = pending[n:]
	}
	return nil
}
