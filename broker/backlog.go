package broker

import "container/heap"

// backlog holds the ready messages of a queue, in order of priority and then of
// arrival.
type backlog struct {
	lanes    []lane // by priority
	count    int
	bytes    int64  // of bodies
	requeued uint64 // messages requeued to a quorum queue
}

// lane holds the messages of one priority.
type lane struct {
	arrived  fifo
	requeued byPosition // before the arrived ones
}

func newBacklog(maxPriority int) backlog {
	return backlog{lanes: make([]lane, maxPriority+1)}
}

func (b *backlog) len() int { return b.count }

func (b *backlog) push(e *entry) {
	b.count++
	b.bytes += int64(len(e.message.body))
	b.laneOf(e).arrived.push(e)
}

func (b *backlog) laneOf(e *entry) *lane {
	if len(b.lanes) == 1 {
		return &b.lanes[0]
	}
	priority := int(e.message.properties().priority())
	return &b.lanes[min(priority, len(b.lanes)-1)]
}

// requeue inserts an entry where it was. A quorum queue inserts it after the entries
// that were requeued before it (https://www.rabbitmq.com/docs/quorum-queues).
func (b *backlog) requeue(e *entry, quorum bool) {
	b.count++
	b.bytes += int64(len(e.message.body))
	if quorum {
		b.requeued++
		e.position = b.requeued
	}
	heap.Push(&b.laneOf(e).requeued, e)
}

// nextLane returns the lane of the next message; nil where the backlog is empty.
func (b *backlog) nextLane() *lane {
	if b.count == 0 {
		return nil
	}
	for i := len(b.lanes) - 1; i >= 0; i-- {
		if b.lanes[i].first() != nil {
			return &b.lanes[i]
		}
	}
	return nil
}

func (b *backlog) pop() *entry {
	l := b.nextLane()
	if l == nil {
		return nil
	}
	return b.popFrom(l)
}

func (b *backlog) popFrom(l *lane) *entry {
	e := l.first()
	b.count--
	b.bytes -= int64(len(e.message.body))
	if len(l.requeued) > 0 {
		heap.Pop(&l.requeued)
	} else {
		l.arrived.pop()
	}
	return e
}

// first returns the next message of a lane. Requeued messages come first, since they
// were delivered before.
func (l *lane) first() *entry {
	if len(l.requeued) > 0 {
		return l.requeued[0]
	}
	return l.arrived.first()
}

// byPosition is a heap of entries.
type byPosition []*entry

func (h byPosition) Len() int           { return len(h) }
func (h byPosition) Less(i, j int) bool { return h[i].position < h[j].position }
func (h byPosition) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byPosition) Push(x any)        { *h = append(*h, x.(*entry)) }

func (h *byPosition) Pop() any {
	all := *h
	end := len(all) - 1
	e := all[end]
	all[end] = nil
	if *h = all[:end]; end == 0 && cap(all) > maxIdleCapacity {
		*h = nil
	}
	return e
}

// maxIdleCapacity is the largest capacity that an empty list retains.
const maxIdleCapacity = 4096

// fifo is a queue of entries whose memory shrinks with it.
type fifo struct {
	entries []*entry
	start   int
}

func (f *fifo) push(e *entry) { f.entries = append(f.entries, e) }

func (f *fifo) first() *entry {
	if f.start == len(f.entries) {
		return nil
	}
	return f.entries[f.start]
}

func (f *fifo) pop() {
	f.entries[f.start] = nil
	f.start++
	switch {
	case f.start == len(f.entries):
		f.entries, f.start = f.entries[:0], 0
		if cap(f.entries) > maxIdleCapacity {
			f.entries = nil
		}
	case f.start > 1024 && f.start > len(f.entries)/2:
		f.entries, f.start = append([]*entry(nil), f.entries[f.start:]...), 0
	}
}
