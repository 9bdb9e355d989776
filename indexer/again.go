package indexer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// againWait is how long the broker takes at most to hand out the next message
// that comes again, if there is one.
const againWait = time.Second

// othersWait is how long a bulk request of a process that is gone takes at most
// until what it stores is found.
const othersWait = time.Second

// begin is when the first message comes: until then this consumer may have waited
// for long behind one that was active. If that one was another process's, which is
// gone, what it sent may be on its way through the store. Those of other sources
// tell nothing of our queue: they may have gone on while nobody consumed it.
func (s *session) begin(ctx context.Context, d amqp.Delivery) (err error) {
	own := s.flow.given
	if err := s.raise(ctx); err != nil {
		return err
	}
	if s.newest, err = s.cfg.Store.HighestSequenceOf(ctx, s.cfg.Decoder.Source); err != nil {
		return err
	}
	former, err := s.readHandover(ctx, s.queue)
	if err != nil {
		return err
	}
	s.flow.acknowledged = s.flow.acknowledged.with(former, s.oldestSame())
	if !d.Redelivered || own > 0 && s.newest <= own {
		return nil
	}
	return new(backoff).wait(ctx, othersWait)
}

// oldestSame is the lowest sequence of a stored event whose message can come again.
func (s *session) oldestSame() int64 { return s.newest - sameFor.Microseconds() }

// recognise finds what of a batch is stored, and gives the rest its places, before
// more is taken: that is to be behind.
func (s *session) recognise(ctx context.Context, b *batch) (err error) {
	if b.redelivered == 0 {
		return nil
	}
	s.inQueueOrder(b)
	if b.known, err = s.known(ctx, b.items); err != nil {
		return err
	}
	s.separateDuplicates(b.items, b.known)
	s.inPlace(b, s.newest-s.heldFor())
	return nil
}

// known looks for the redelivered events in the store, and gives the sequences of
// those that it has: an id is unique only within a backing index, and an older one
// may hold it. An id with the sequence in it was made just now.
func (x *Indexer) known(ctx context.Context, items []item) (map[string]int64, error) {
	var ids []string
	for i := range items {
		if it := &items[i]; it.mayBeStored() {
			ids = append(ids, it.document.ID)
		}
	}
	return x.lookUp(ctx, x.patience(), ids)
}

// sameFor is how far a message that comes again can be behind the newest of its
// source in the store when it is there already. RabbitMQ waits half as long for an
// acknowledgement (consumer_timeout, Consumers guide).
const sameFor = time.Hour

// separateDuplicates makes events of their own of messages that share an id, but are
// not the stored one again: one copy comes again once, and an acknowledged one, or
// one that is stored since long ago, does not.
func (s *session) separateDuplicates(items []item, known map[string]int64) {
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	for i := range items {
		it := &items[i]
		if !it.redelivered || !it.event.IDFromContent() {
			continue
		}
		id := it.document.ID
		sequence, stored := known[id]
		if s.seen[id] || stored && (sequence < s.oldestSame() || s.flow.acknowledged.contain(sequence)) {
			s.replace(it, it.event.Second())
		}
		s.seen[id] = true
	}
}

// unknown leaves out the redelivered events that are stored.
func unknown(items []*item, known map[string]int64) []*item {
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
func (s *session) deliverAgain(ctx context.Context, patience *patience, pending []*item) error {
	for len(pending) > 0 {
		n := s.appetite.portion(pending)
		if err := s.deliver(ctx, patience, pending[:n]); err != nil {
			return err
		}
		pending = pending[n:]
	}
	return nil
}
