package indexer

import (
	"context"

	"github.com/watershipmq/watership/schemas"
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
// What stays behind: a message without an id of its own, which cannot be recognised,
// and what the prefetch, or 16 MiB of documents, parts from that which is stored
// behind it. The prefetch cannot grow before: a quorum queue puts what is given back
// behind what it has yet to hand out again.

// inPlace gives events that come again and are not stored the sequences that they
// had, as far as what is stored behind them tells.
func (x *Indexer) inPlace(ctx context.Context, b *batch, stored map[string]schemas.Stored) error {
	if len(stored) == 0 {
		return nil
	}
	sequences, err := x.sequences(ctx, stored)
	if err != nil {
		return err
	}
	places := make([]int64, len(b.items))
	for i := range b.items {
		if it := &b.items[i]; it.mayBeStored() {
			places[i] = sequences[stored[it.document.ID]]
		}
	}
	for _, n := range fillHoles(places, b.above) {
		it := &b.items[n]
		if _, found := stored[it.document.ID]; it.mayBeStored() && !found {
			event := it.event
			event.Sequence = places[n]
			x.replace(it, event)
		}
	}
	return nil
}

func (x *Indexer) sequences(ctx context.Context, stored map[string]schemas.Stored) (sequences map[schemas.Stored]int64, err error) {
	list := make([]schemas.Stored, 0, len(stored))
	for _, at := range stored {
		list = append(list, at)
	}
	err = x.insist(ctx, func() (err error) {
		sequences, err = x.cfg.Store.Sequences(ctx, list)
		return err
	})
	return sequences, err
}

// fillHoles takes the sequences of events in the order of their queue, 0 for those
// that are not known to be stored. Each run of zeros before a sequence gets the
// numbers right below it, if they are all above the sequences before the run, and
// above a bound. It returns the indices of what it filled.
func fillHoles(sequences []int64, above int64) (filled []int) {
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
func (x *Indexer) heldFor() int64 { return (holdAtMost * x.cfg.GiveBack).Microseconds() }
