package indexer

import (
	"cmp"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// Order across a crash. Bulk requests run concurrently, so a crash can leave a message
// in the store while its predecessor is missing. The predecessor is redelivered and gets
// a new, higher sequence: the wrong one. But before the crash it had a lower sequence,
// and so had every lost message. Therefore each lost message has a free number
// right below the sequence of the next stored message of its queue.
//
// Restoring these numbers needs no state from before the crash. It needs all messages
// that were unacknowledged, in the order of the queue, before any of them is written. So
// a batch that starts with a redelivered message continues until the first new message,
// or until the broker sends no more.
//
// If the prefetch is too small for all of them, the session requeues them and consumes
// again with as many as fit into memory. A quorum queue puts requeued messages after the
// redelivered ones that it has not sent yet, but it counts deliveries: messages with
// more deliveries were first in the queue.
//
// Two cases stay out of order: messages without an id, which cannot be matched, and
// redelivered messages that do not fit into memory together.

// sortByDeliveries sorts events by their earlier deliveries, the most first, which is the
// order that the queue had before messages were requeued. A redelivered event without a
// count comes from a classic queue, which keeps its order; counts in the headers of other
// events are then the publisher's.
func (b *batch) sortByDeliveries(format schemas.DocumentFormat) error {
	if slices.ContainsFunc(b.items, func(it item) bool { return it.redelivered && it.earlierDeliveries == 0 }) {
		return nil
	}
	sequences := make([]int64, len(b.items))
	for i := range b.items {
		sequences[i] = b.items[i].sequence
	}
	slices.SortStableFunc(b.items, func(a, b item) int { return cmp.Compare(b.earlierDeliveries, a.earlierDeliveries) })
	for i := range b.items {
		if it := &b.items[i]; it.sequence != sequences[i] {
			if err := it.setSequence(format, sequences[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreSequences gives lost events the free sequences right below the next stored
// event, if these are above a bound. Events after the last stored one get higher
// sequences than all stored ones.
func (b *batch) restoreSequences(format schemas.DocumentFormat, clock *clock, above int64) error {
	sequences := make([]int64, len(b.items))
	last := -1
	for i := range b.items {
		it := &b.items[i]
		if sequence, found := b.stored[it.document.ID]; found && it.mayBeStored() {
			sequences[i] = sequence
			last = i
			clock.raise(sequence)
		}
	}
	for _, n := range assignFreeSequences(sequences, above) {
		if it := &b.items[n]; it.mayBeStored() {
			if err := it.setSequence(format, sequences[n]); err != nil {
				return err
			}
		}
	}
	if last < 0 {
		return nil
	}
	return moveAbove(b.items[last+1:], format, clock, slices.Max(sequences))
}

// moveAbove gives new sequences to events that are not above a sequence. The clock has
// been raised to it.
func moveAbove(items []item, format schemas.DocumentFormat, clock *clock, above int64) error {
	for i := range items {
		it := &items[i]
		if it.sequence <= above {
			sequence, _ := clock.next()
			if err := it.setSequence(format, sequence); err != nil {
				return err
			}
		}
		above = it.sequence
	}
	return nil
}

// assignFreeSequences replaces zeros in the sequences of events, which are in the order of their
// queue; zero means not stored. Each run of zeros before a sequence gets the numbers
// right below it, if these are above the earlier sequences and above a bound. It returns
// the indices of the replaced zeros.
func assignFreeSequences(sequences []int64, above int64) (assigned []int) {
	run := 0
	for i, stored := range sequences {
		if stored == 0 {
			run++
			continue
		}
		if stored-int64(run) > above {
			for n := i - run; n < i; n++ {
				sequences[n] = stored - int64(i-n)
				assigned = append(assigned, n)
			}
		}
		above, run = max(above, stored), 0
	}
	return assigned
}

// maxSequenceSpan returns the span of sequences that can be unacknowledged at once. A
// stored event that is older belongs to another, equal message.
func (c Config) maxSequenceSpan() int64 { return (maxHoldFactor * c.RequeueAfter).Microseconds() }
