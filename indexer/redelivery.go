package indexer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// redeliveryWait bounds the pause between two redelivered messages. RabbitMQ sends all
// of them before the first new message.
const redeliveryWait = time.Second

// lateWriteWait bounds the time until the last bulk request of a killed process is
// visible to searches by id.
const lateWriteWait = time.Second

// onFirstDelivery prepares the session for its first message. It runs no earlier,
// since another process may have been the active consumer until then. If that
// process was killed, its last bulk request may not have reached the store yet, so a
// redelivered message waits. The sequences of other sources do not show whether this
// queue was consumed in between.
func (s *session) onFirstDelivery(ctx context.Context, d amqp.Delivery) (err error) {
	own := s.state.lastSequence
	if err := s.watermarks.claim(ctx, s.claim); err != nil {
		return err
	}
	if err := s.raiseSequence(ctx); err != nil {
		return err
	}
	s.watermarks.advance(s.claim)
	if s.newestStored, err = s.cfg.Store.HighestSequenceOf(ctx, s.cfg.Source); err != nil {
		return err
	}
	former, err := readHandover(ctx, s.cfg, s.queue)
	if err != nil {
		return err
	}
	s.state.acknowledged = s.state.acknowledged.merge(former, s.oldestRedeliverable())
	if !d.Redelivered || own > 0 && s.newestStored <= own {
		return nil
	}
	return pause(ctx, 1, lateWriteWait)
}

// oldestRedeliverable returns the lowest sequence of a stored event whose message
// RabbitMQ may still redeliver.
func (s *session) oldestRedeliverable() int64 {
	return s.newestStored - redeliveryWindow.Microseconds()
}

// matchStored looks up the redelivered events of a batch in the store and restores the
// sequences of those that it does not have. It runs before the next batch takes
// sequences, which have to be higher.
func (s *session) matchStored(ctx context.Context, b *batch) (err error) {
	if b.redeliveredEvents == 0 {
		return nil
	}
	if err := b.sortByDeliveries(s.cfg.Format); err != nil {
		return err
	}
	if b.stored, err = s.lookupStored(ctx, b.items); err != nil {
		return err
	}
	if err := s.separateDuplicates(b.items, b.stored); err != nil {
		return err
	}
	watermark := s.watermarks.hold(s.claim, b)
	if err := b.restoreSequences(s.cfg.Format, &s.sequence, max(watermark, s.newestStored-s.cfg.maxSequenceSpan())); err != nil {
		return err
	}
	s.watermarks.moveOn(s.claim, b, b.lowestSequence()-1)
	return nil
}

// lookupStored returns the sequences of the redelivered events that the store has, by
// id. It searches all backing indices, since an id is unique only within one of them.
// It skips ids that contain the sequence: these are new.
func (x *Indexer) lookupStored(ctx context.Context, items []item) (map[string]int64, error) {
	var ids []string
	for i := range items {
		if it := &items[i]; it.mayBeStored() {
			ids = append(ids, it.document.ID)
		}
	}
	return x.lookupSequences(ctx, x.newRetryBudget(), ids)
}

// redeliveryWindow bounds the age of a stored event whose message is redelivered,
// relative to the newest event of its source. RabbitMQ waits half as long for an
// acknowledgement (consumer_timeout, Consumers guide).
const redeliveryWindow = time.Hour

// separateDuplicates gives new ids to messages that share an id with another message.
// An event with the same id is another message if the id occurred before in this
// session, since a message is redelivered once, if its sequence was acknowledged, or
// if it is older than any redelivery.
func (s *session) separateDuplicates(items []item, stored map[string]int64) error {
	if s.seenIDs == nil {
		s.seenIDs = map[string]bool{}
	}
	for i := range items {
		it := &items[i]
		if !it.redelivered || !it.idFromContent {
			continue
		}
		id := it.document.ID
		sequence, found := stored[id]
		if s.seenIDs[id] || found && (sequence < s.oldestRedeliverable() || s.state.acknowledged.contains(sequence)) {
			if err := it.makeUnique(s.cfg.Format); err != nil {
				return err
			}
		}
		s.seenIDs[id] = true
	}
	return nil
}

// dropStored returns the items without the redelivered events that the store has.
func dropStored(items []*item, stored map[string]int64) []*item {
	if len(stored) == 0 {
		return items
	}
	var rest []*item
	for _, it := range items {
		if _, found := stored[it.document.ID]; !found || !it.mayBeStored() {
			rest = append(rest, it)
		}
	}
	return rest
}

// mayBeStored reports whether an earlier delivery can have stored the event under the
// same id.
func (it *item) mayBeStored() bool {
	return it.redelivered && (it.action != schemas.Published || it.idFromContent)
}

// writeInOrder writes the items in as many requests as their size needs, one by one.
func (s *session) writeInOrder(ctx context.Context, budget *retryBudget, pending []*item) error {
	for len(pending) > 0 {
		n := s.sizer.countFitting(pending)
		if err := s.writeItems(ctx, budget, pending[:n]); err != nil {
			return err
		}
		pending = pending[n:]
	}
	return nil
}
