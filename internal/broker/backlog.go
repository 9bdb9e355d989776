package broker

import (
	"slices"
	"sort"
)

// backlog are the messages of a queue that are ready, in order of priority and
// then of arrival.
type backlog struct {
	lanes []lane // by priority
	count int
	bytes int64 // of bodies
}

// lane are messages of one priority.
type lane struct {
	fresh    fifo
	returned []*entry // given back; before the fresh ones
}

func newBacklog(maxPriority int) backlog {
	return backlog{lanes: make([]lane, maxPriority+1)}
}

func (b *backlog) len() int { return b.count }

func (b *backlog) push(e *entry) {
	b.count++
	b.bytes += int64(len(e.message.body))
	b.laneOf(e).fresh.push(e)
}

func (b *backlog) laneOf(e *entry) *lane {
	if len(b.lanes) == 1 {
		return &b.lanes[0]
	}
	priority := int(e.message.properties().priority())
	return &b.lanes[min(priority, len(b.lanes)-1)]
}

// giveBack puts an entry where it was. A quorum queue puts it behind those that
// were given back before it (https://www.rabbitmq.com/docs/quorum-queues).
func (b *backlog) giveBack(e *entry, quorum bool) {
	b.count++
	b.bytes += int64(len(e.message.body))
	l := b.laneOf(e)
	at := len(l.returned)
	if !quorum {
		at = sort.Search(at, func(i int) bool { return l.returned[i].position > e.position })
	}
	l.returned = slices.Insert(l.returned, at, e)
}

// head is the lane whose first message is next; nil where there is none.
func (b *backlog) head() *lane {
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
	l := b.head()
	if l == nil {
		return nil
	}
	return b.popFrom(l)
}

func (b *backlog) popFrom(l *lane) *entry {
	e := l.first()
	b.count--
	b.bytes -= int64(len(e.message.body))
	if len(l.returned) > 0 && l.returned[0] == e {
		l.returned[0] = nil
		l.returned = l.returned[1:]
	} else {
		l.fresh.pop()
	}
	return e
}

// first is a lane's next message. What was given back had been at the head, so it is
// before all fresh ones.
func (l *lane) first() *entry {
	if len(l.returned) > 0 {
		return l.returned[0]
	}
	return l.fresh.first()
}

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
		if cap(f.entries) > 4096 {
			f.entries = nil
		}
	case f.start > 1024 && f.start > len(f.entries)/2:
		f.entries, f.start = append([]*entry(nil), f.entries[f.start:]...), 0
	}
}
