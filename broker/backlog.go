package broker

import "container/heap"

// backlog holds the ready messages of a queue, in order of priority and then of
// arrival. A quorum queue has priorities without an argument
// (https://www.rabbitmq.com/docs/quorum-queues): since RabbitMQ 4.3 as many as there are
// levels, of which the highest comes first, in RabbitMQ 4.0 two, which take turns, and before
// none. It delivers requeued messages first, whatever their priority.
type backlog struct {
	quorum   bool
	release  Release
	lanes    []lane // by level
	returned lane   // messages requeued to a quorum queue
	count    int
	bytes    int64  // that count towards the limit
	requeued uint64 // messages requeued to a quorum queue
	turns    uint64 // messages that were taken from the lanes
}

const (
	defaultLevel = 4  // of a message without a priority in a quorum queue
	highestLevel = 31 // of a quorum queue
)

// lane holds the messages of one priority.
type lane struct {
	arrived  fifo
	requeued byPosition // before the arrived ones
}

func newBacklog(s settings, r Release) backlog {
	b := backlog{quorum: s.quorum, release: r}
	switch {
	case s.quorum && r.isBefore40():
		b.lanes = make([]lane, 1)
	case s.quorum && r.isBefore43():
		b.lanes = make([]lane, 2)
	case !s.quorum:
		b.lanes = make([]lane, s.maxPriority+1)
	}
	return b
}

func (b *backlog) len() int { return b.count }

func (b *backlog) push(e *entry) {
	b.count++
	b.bytes += b.sizeOf(e.message)
	b.laneOf(e).arrived.push(e)
}

// sizeOf returns the bytes of a message that count towards the limit of the queue. Quorum
// queues of RabbitMQ 4.3 count the properties, too.
func (b *backlog) sizeOf(m *message) int64 {
	if b.quorum && !b.release.isBefore43() {
		return m.size()
	}
	return int64(len(m.body))
}

func (b *backlog) laneOf(e *entry) *lane {
	if !b.quorum && len(b.lanes) == 1 {
		return &b.lanes[0]
	}
	level := b.level(e.message)
	for len(b.lanes) <= level { // of a quorum queue, whose messages mostly have one level
		b.lanes = append(b.lanes, lane{})
	}
	return &b.lanes[level]
}

func (b *backlog) level(m *message) int {
	priority, set := m.priority()
	level := int(priority)
	switch {
	case !b.quorum:
		return min(level, len(b.lanes)-1)
	case b.release.isBefore40():
		return 0
	case b.release.isBefore43() && level > defaultLevel:
		return 1
	case b.release.isBefore43():
		return 0
	case !set:
		return defaultLevel
	}
	return min(level, highestLevel)
}

// requeue inserts an entry where it was. A quorum queue inserts it after the entries
// that were requeued before it (https://www.rabbitmq.com/docs/quorum-queues).
func (b *backlog) requeue(e *entry) {
	b.count++
	b.bytes += b.sizeOf(e.message)
	l := &b.returned
	if b.quorum {
		b.requeued++
		e.position = b.requeued
	} else {
		l = b.laneOf(e)
	}
	heap.Push(&l.requeued, e)
}

// nextLane returns the lane of the next message; nil where the backlog is empty.
func (b *backlog) nextLane() *lane {
	switch {
	case b.count == 0:
		return nil
	case b.returned.first() != nil:
		return &b.returned
	case b.takesTurns() && b.turns%3 == 2 && b.lanes[0].first() != nil: // two of the high level, then one of the low
		return &b.lanes[0]
	}
	for i := len(b.lanes) - 1; i >= 0; i-- {
		if b.lanes[i].first() != nil {
			return &b.lanes[i]
		}
	}
	return nil
}

func (b *backlog) takesTurns() bool { return b.quorum && b.release == RabbitMQ40 }

// heads yields the lanes with messages whose first message can expire: all of them or, of
// a queue whose levels take turns, the lane of the next message.
func (b *backlog) heads(yield func(*lane) bool) {
	if b.takesTurns() {
		for l, last := b.nextLane(), (*lane)(nil); l != nil && l != last; last, l = l, b.nextLane() {
			if !yield(l) {
				return
			}
		}
		return
	}
	if b.returned.first() != nil && !yield(&b.returned) {
		return
	}
	for i := range b.lanes {
		if b.lanes[i].first() != nil && !yield(&b.lanes[i]) {
			return
		}
	}
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
	b.bytes -= b.sizeOf(e.message)
	if l != &b.returned {
		b.turns++
	}
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
