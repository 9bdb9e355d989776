package broker

import (
	"cmp"
	"slices"
	"sort"
)

// unackedDelivery is a delivery that the client has not acknowledged.
type unackedDelivery struct {
	tag      uint64
	entry    *entry // nil: removed
	queue    *queue
	consumer *consumer // nil: basic.get
}

// unackedList holds the unacknowledged deliveries of a channel, in the order of their
// tags.
type unackedList struct {
	items   []unackedDelivery
	removed int // items without an entry
}

func (l *unackedList) add(o unackedDelivery) { l.items = append(l.items, o) }

// removeOne removes and returns the delivery with a tag, if it is in the list.
func (l *unackedList) removeOne(tag uint64) (unackedDelivery, bool) {
	i := l.find(tag)
	if i < 0 {
		return unackedDelivery{}, false
	}
	o := l.items[i]
	l.items[i].entry = nil
	l.removed++
	l.compact()
	return o, true
}

func (l *unackedList) find(tag uint64) int {
	i := sort.Search(len(l.items), func(i int) bool { return l.items[i].tag >= tag })
	if i == len(l.items) || l.items[i].tag != tag || l.items[i].entry == nil {
		return -1
	}
	return i
}

// removeUpTo removes and returns all deliveries up to a tag. It returns false where the
// tag is not in the list.
func (l *unackedList) removeUpTo(tag uint64) ([]unackedDelivery, bool) {
	i := l.find(tag)
	if i < 0 {
		return nil, false
	}
	return l.removeFirst(i + 1), true
}

func (l *unackedList) removeAll() []unackedDelivery { return l.removeFirst(len(l.items)) }

func (l *unackedList) removeFirst(n int) []unackedDelivery {
	taken := make([]unackedDelivery, 0, n)
	for i := range l.items[:n] {
		if l.items[i].entry != nil {
			taken = append(taken, l.items[i])
			l.items[i].entry = nil
			l.removed++
		}
	}
	l.compact()
	return taken
}

// restore inserts removed deliveries again.
func (l *unackedList) restore(taken []unackedDelivery) {
	all := slices.Clone(taken)
	for _, o := range l.items {
		if o.entry != nil {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b unackedDelivery) int { return cmp.Compare(a.tag, b.tag) })
	l.items, l.removed = all, 0
}

// compact drops removed items from the front, and from everywhere where they are the
// majority.
func (l *unackedList) compact() {
	n := 0
	for n < len(l.items) && l.items[n].entry == nil {
		n++
	}
	clear(l.items[:n])
	l.items = l.items[n:]
	l.removed -= n
	if l.removed > 64 && l.removed > len(l.items)/2 {
		var rest []unackedDelivery
		for _, o := range l.items {
			if o.entry != nil {
				rest = append(rest, o)
			}
		}
		l.items, l.removed = rest, 0
	}
}

func (ch *channel) nextTag() uint64 {
	ch.lastTag++
	return ch.lastTag
}

func (ch *channel) addUnacked(o unackedDelivery) {
	if o.consumer != nil {
		ch.prefetchUsed++
	}
	ch.unacked.add(o)
}

// hasPrefetchRoom reports whether the global prefetch of the channel allows one more
// delivery.
func (ch *channel) hasPrefetchRoom() bool {
	return ch.globalPrefetch == 0 || ch.prefetchUsed < ch.globalPrefetch
}

// removeUnacked removes and returns the deliveries that an acknowledgement names
// (§1.8.3.13). Tag 0 with multiple names all.
func (ch *channel) removeUnacked(tag uint64, multiple bool) ([]unackedDelivery, *exception) {
	if multiple && tag == 0 {
		return ch.unacked.removeAll(), nil
	}
	if multiple {
		if all, ok := ch.unacked.removeUpTo(tag); ok {
			return all, nil
		}
	} else if o, ok := ch.unacked.removeOne(tag); ok {
		return []unackedDelivery{o}, nil
	}
	return nil, newException(preconditionFailed, "unknown delivery tag %d", tag)
}

func (ch *channel) ack(args *decoder) *exception {
	tag, flags := args.longlong(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	return ch.acknowledge(tag, flags.at(0), acknowledged, false)
}

func (ch *channel) nack(args *decoder) *exception {
	tag, flags := args.longlong(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	return ch.acknowledge(tag, flags.at(0), rejection(flags.at(1)), ch.vhost.rabbitmq.isBefore43())
}

func (ch *channel) reject(args *decoder) *exception {
	tag, flags := args.longlong(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	return ch.acknowledge(tag, false, rejection(flags.at(0)), true)
}

// disposition is the result of a delivery.
type disposition int

const (
	acknowledged disposition = iota
	rejected
	requeued
)

func rejection(requeue bool) disposition {
	if requeue {
		return requeued
	}
	return rejected
}

// acknowledge applies a disposition to deliveries, in a transaction at its commit. With
// failed, the deliveries count as failed: since RabbitMQ 4.3 those that a consumer rejects
// or whose channel ends, and not messages of basic.nack.
func (ch *channel) acknowledge(tag uint64, multiple bool, d disposition, failed bool) *exception {
	ch.vhost.lock()
	defer ch.vhost.unlock()
	all, err := ch.removeUnacked(tag, multiple)
	if err != nil {
		return err
	}
	if ch.tx != nil {
		ch.tx.acknowledgements = append(ch.tx.acknowledgements, acknowledgement{all, d, failed})
		return nil
	}
	ch.apply(acknowledgement{all, d, failed})
	return nil
}

// apply performs an acknowledgement, and offers requeued messages to all consumers.
func (ch *channel) apply(s acknowledgement) {
	for _, o := range s.deliveries {
		switch s.disposition {
		case requeued:
			ch.release(o)
			o.queue.giveBack(o.entry, s.failed)
		case rejected:
			ch.release(o)
			o.queue.reject(o.entry, s.failed)
		case acknowledged:
			ch.release(o)
			o.queue.acknowledge(o.entry)
		}
	}
	ch.deliverAfter(s.deliveries)
}

// release ends the claim of a consumer, or of a basic.get, to a delivery.
func (ch *channel) release(o unackedDelivery) {
	if o.consumer == nil {
		o.queue.removeHolder()
		return
	}
	o.consumer.settle()
	ch.prefetchUsed--
}

// deliverAfter offers the messages of the queues of acknowledged deliveries to their
// consumers. Where the channel had reached its global prefetch, it also offers messages
// to all its consumers.
func (ch *channel) deliverAfter(settled []unackedDelivery) {
	ch.vhost.rounds++
	for _, o := range settled {
		o.queue.deliverOnce()
	}
	if ch.globalPrefetch > 0 && ch.prefetchUsed+len(settled) >= ch.globalPrefetch {
		ch.deliverToConsumers()
	}
}

// deliverToConsumers offers messages to all consumers of the channel, as a part of a
// round of deliveries.
func (ch *channel) deliverToConsumers() {
	for _, c := range ch.consumers {
		c.queue.deliverOnce()
	}
}

func (ch *channel) recover(id methodID, args *decoder) *exception {
	if !args.bits().at(0) {
		return newException(notImplemented, "requeue=false")
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if id == basicRecover {
		ch.reply(basicRecoverOK, nil)
	}
	ch.apply(acknowledgement{ch.unacked.removeAll(), requeued, ch.vhost.rabbitmq.isBefore43()})
	return nil
}
