package broker

import "sort"

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
	return ch.settleAll(tag, flags.at(0), "")
}

func (ch *channel) nack(args *decoder) *exception {
	tag, flags := args.longlong(), args.bits()
	if args.bad {
		return errShort()
	}
	return ch.refuse(tag, flags.at(0), flags.at(1))
}

func (ch *channel) reject(args *decoder) *exception {
	tag, flags := args.longlong(), args.bits()
	if args.bad {
		return errShort()
	}
	return ch.refuse(tag, false, flags.at(0))
}

func (ch *channel) refuse(tag uint64, multiple, requeue bool) *exception {
	if !requeue {
		return ch.settleAll(tag, multiple, "rejected")
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	all, err := ch.collect(tag, multiple)
	ch.requeue(all)
	return err
}

// settleAll ends deliveries: acknowledged, or dead for a reason.
func (ch *channel) settleAll(tag uint64, multiple bool, reason string) *exception {
	ch.vhost.lock()
	defer ch.vhost.unlock()
	all, err := ch.collect(tag, multiple)
	for _, o := range all {
		ch.credit(o)
		o.queue.settle(o.entry, reason)
	}
	ch.serve(all)
	return err
}

// requeue puts deliveries back where they came from, and offers them again.
func (ch *channel) requeue(all []outstanding) {
	for _, o := range all {
		ch.putBack(o)
	}
	ch.serve(all)
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
		o.queue.once()
	}
	if ch.limit > 0 && ch.charged+len(settled) >= ch.limit { // it had none left
		ch.serveConsumers()
	}
}

// serveConsumers offers messages to all consumers of the channel, as a part of a
// round.
func (ch *channel) serveConsumers() {
	for _, c := range ch.consumers {
		c.queue.once()
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
	ch.requeue(ch.unacked.takeAll())
	return nil
}
