package indexer

import (
	"cmp"
	"slices"
)

// Order across a crash. Bulk requests are written side by side, so a crash can
// leave a message in the store and not the one before it. That one comes again and
// takes another sequence, which is behind. But it had taken one in its place, as
// had each that was lost with it: so below the sequence of the next one that is
// stored there is a number for each of them which nothing of their queue has.
//
// To give it to them needs no memory of before the crash, only that what was in
// flight comes again first, in the order of the queue, and is seen as a whole before
// any of it is written. So a batch that begins with a message that comes again goes
// on until one comes for the first time, or the broker hands out no more.
//
// A consumer that asked for too few to see the whole gives them back and asks for as
// many as fit into memory. They come behind the others then: a quorum queue puts what
// is given back behind what it has yet to hand out again. But it counts deliveries,
// and what has been delivered more often was in front.
//
// What stays behind: a message without an id of its own, which cannot be recognised,
// and what memory parts from that which is stored behind it.

// inQueueOrder puts events into the order of the queue, as it was before some were
// given back. Where any comes again that was not counted, the queue is a classic one,
// which keeps its order, and a count in a header is a publisher's.
func (x *Indexer) restoreQueueOrder(b *batch) {
	if slices.ContainsFunc(b.items, func(it item) bool { return it.redelivered && it.deliveries == 0 }) {
		return
	}
	sequences := make([]int64, len(b.items))
	for i := range b.items {
		sequences[i] = b.items[i].event.Sequence
	}
	slices.SortStableFunc(b.items, func(a, b item) int { return cmp.Compare(b.deliveries, a.deliveries) })
	for i := range b.items {
		if it := &b.items[i]; it.event.Sequence != sequences[i] {
			x.replace(it, it.event.At(sequences[i]))
		}
	}
}

// inPlace gives events that come again and are not stored the sequences that they
// had, as far as what is stored behind them tells: above a bound. What is behind all
// that is stored gets higher ones.
func (x *Indexer) restoreSequences(b *batch, above int64) {
	places := make([]int64, len(b.items))
	last := -1
	for i := range b.items {
		it := &b.items[i]
		if _, stored := b.stored[it.document.ID]; stored && it.mayBeStored() {
			places[i] = b.stored[it.document.ID]
			last = i
			x.sequence.raise(places[i])
		}
	}
	for _, n := range fillGaps(places, above) {
		if it := &b.items[n]; it.mayBeStored() {
			x.replace(it, it.event.At(places[n]))
		}
	}
	if last >= 0 {
		x.moveAbove(b.items[last+1:], slices.Max(places))
	}
}

// behind puts events above a sequence, which the clock has been raised to.
func (x *Indexer) moveAbove(items []item, above int64) {
	for i := range items {
		it := &items[i]
		if it.event.Sequence <= above {
			sequence, _ := x.sequence.next()
			x.replace(it, it.event.At(sequence))
		}
		above = it.event.Sequence
	}
}

// fillHoles takes the sequences of events in the order of their queue, 0 for those
// that are not known to be stored. Each run of zeros before a sequence gets the
// numbers right below it, if they are all above the sequences before the run, and
// above a bound. It returns the indices of what it filled.
func fillGaps(sequences []int64, above int64) (filled []int) {
	run := 0
	for i, stored := range sequences {
		if stored == 0 {
			run++
			continue
		}
		if stored-int64(run) > above {
			for n := i - run; n < i; n++ {
				sequences[n] = stored - int64(i-n)
				filled = append(filled, n)
			}
		}
		above, run = max(above, stored), 0
	}
	return filled
}

// heldFor is the span of sequences that can be in flight at once: nothing is held
// for longer. A message of which the store has an older, equal one is not that one.
func (x *Indexer) maxInFlightSpan() int64 { return (maxHoldFactor * x.cfg.RequeueAfter).Microseconds() }
