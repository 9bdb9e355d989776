package broker

import (
	"cmp"
	"slices"
	"sort"
)

// outstanding is a delivery that is to be acknowledged.
type outstanding struct {
	tag      uint64
	entry    *entry // nil: settled
	queue    *queue
	consumer *consumer // nil: basic.get
}

// ledger are a channel's outstanding deliveries, in the order of their tags.
type ledger struct {
	items   []outstanding
	settled int // items without an entry
}

func (l *ledger) add(o outstanding) { l.items = append(l.items, o) }

// takeOne takes out the delivery of a tag, if it is outstanding.
func (l *ledger) takeOne(tag uint64) (outstanding, bool) {
	i := l.find(tag)
	if i < 0 {
		return outstanding{}, false
	}
	o := l.items[i]
	l.items[i].entry = nil
	l.settled++
	l.compact()
	return o, true
}

func (l *ledger) find(tag uint64) int {
	i := sort.Search(len(l.items), func(i int) bool { return l.items[i].tag >= tag })
	if i == len(l.items) || l.items[i].tag != tag || l.items[i].entry == nil {
		return -1
	}
	return i
}

// takeUpTo takes out all up to a tag, which must be outstanding itself.
func (l *ledger) takeUpTo(tag uint64) ([]outstanding, bool) {
	i := l.find(tag)
	if i < 0 {
		return nil, false
	}
	return l.takeFirst(i + 1), true
}

func (l *ledger) takeAll() []outstanding { return l.takeFirst(len(l.items)) }

func (l *ledger) takeFirst(n int) []outstanding {
	taken := make([]outstanding, 0, n)
	for i := range l.items[:n] {
		if l.items[i].entry != nil {
			taken = append(taken, l.items[i])
			l.items[i].entry = nil
			l.settled++
		}
	}
	l.compact()
	return taken
}

// restore puts deliveries back that were taken out.
func (l *ledger) restore(taken []outstanding) {
	all := slices.Clone(taken)
	for _, o := range l.items {
		if o.entry != nil {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b outstanding) int { return cmp.Compare(a.tag, b.tag) })
	l.items, l.settled = all, 0
}

// compact drops settled items from the front, and all of them where they are most.
func (l *ledger) compact() {
	n := 0
	for n < len(l.items) && l.items[n].entry == nil {
		n++
	}
	clear(l.items[:n])
	l.items = l.items[n:]
	l.settled -= n
	if l.settled > 64 && l.settled > len(l.items)/2 {
		var rest []outstanding
		for _, o := range l.items {
			if o.entry != nil {
				rest = append(rest, o)
			}
		}
		l.items, l.settled = rest, 0
	}
}

func (ch *channel) nextTag() uint64 {
	ch.tags++
	return ch.tags
}

func (ch *channel) expectAck(o outstanding) {
	if o.consumer != nil {
		ch.charged++
	}
	ch.unacked.add(o)
}

// hasCredit says whether the channel's prefetch allows one more delivery.
func (ch *channel) hasCredit() bool { return ch.limit == 0 || ch.charged < ch.limit }

// collect takes out what an acknowledgement speaks of (§1.8.3.13). Tag 0 with
// multiple is everything.
func (ch *channel) collect(tag uint64, multiple bool) ([]outstanding, *exception) {
	if multiple && tag == 0 {
		return ch.unacked.takeAll(), nil
	}
	if multiple {
		if all, ok := ch.unacked.takeUpTo(tag); ok {
			return all, nil
		}
	} else if o, ok := ch.unacked.takeOne(tag); ok {
		return []outstanding{o}, nil
	}
	return nil, fail(preconditionFailed, "unknown delivery tag %d", tag)
}

func (ch *channel) ack(args *decoder) *exception {
	tag, flags := args.longlong(), args.bits()
	if args.bad {
		return errShort()
	}
	return ch.settle(tag, flags.at(0), acknowledged)
}

func (ch *channel) nack(args *decoder) *exception {
	tag, flags := args.longlong(), args.bits()
	if args.bad {
		return errShort()
	}
	return ch.settle(tag, flags.at(0), refusal(flags.at(1)))
}

func (ch *channel) reject(args *decoder) *exception {
	tag, flags := args.longlong(), args.bits()
	if args.bad {
		return errShort()
	}
	return ch.settle(tag, false, refusal(flags.at(0)))
}

// verdict is how deliveries end.
type verdict int

const (
	acknowledged verdict = iota
	rejected
	requeued
)

func refusal(requeue bool) verdict {
	if requeue {
		return requeued
	}
	return rejected
}

// settle ends deliveries, in a transaction with its commit.
func (ch *channel) settle(tag uint64, multiple bool, v verdict) *exception {
	ch.vhost.lock()
	defer ch.vhost.unlock()
	all, err := ch.collect(tag, multiple)
	if err != nil {
		return err
	}
	if ch.tx != nil {
		ch.tx.settlements = append(ch.tx.settlements, settlement{all, v})
		return nil
	}
	ch.apply(settlement{all, v})
	return nil
}

// apply ends deliveries, and offers those that come back to any consumer.
func (ch *channel) apply(s settlement) {
	for _, o := range s.deliveries {
		switch s.verdict {
		case requeued:
			ch.putBack(o)
		case rejected:
			ch.credit(o)
			o.queue.settle(o.entry, "rejected")
		case acknowledged:
			ch.credit(o)
			o.queue.settle(o.entry, "")
		}
	}
	ch.serve(s.deliveries)
}

func (ch *channel) putBack(o outstanding) {
	ch.credit(o)
	o.queue.giveBack(o.entry, true)
}

func (ch *channel) credit(o outstanding) {
	if o.consumer != nil {
		o.consumer.unacked--
		ch.charged--
	}
}

// serve offers messages to consumers that have room again, and what was given
// back to any.
func (ch *channel) serve(settled []outstanding) {
	ch.vhost.rounds++
	for _, o := range settled {
		o.queue.afterOnce()
	}
	if ch.limit > 0 && ch.charged+len(settled) >= ch.limit { // it had none left
		ch.serveConsumers()
	}
}

// serveConsumers offers messages to all consumers of the channel, as a part of a
// round.
func (ch *channel) serveConsumers() {
	for _, c := range ch.consumers {
		c.queue.afterOnce()
	}
}

func (ch *channel) recover(id methodID, args *decoder) *exception {
	if !args.bits().at(0) {
		return fail(notImplemented, "requeue=false")
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if id == basicRecover {
		ch.reply(basicRecoverOK, nil)
	}
	ch.apply(settlement{ch.unacked.takeAll(), requeued})
	return nil
}
