package broker

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// confirms are a channel's publisher confirms
// (https://www.rabbitmq.com/docs/confirms#publisher-confirms). The reader alone
// uses them.
type confirms struct {
	on        bool         // guarded by the vhost's lock for others
	published uint64       // messages since confirm.select
	confirmed uint64       // up to which the client knows
	delayed   atomic.Int32 // confirms that a fault delays
}

func (ch *channel) confirmSelect(args *decoder) *exception {
	flags := args.bits()
	switch {
	case args.bad:
		return truncatedArguments()
	case ch.tx != nil:
		return newException(preconditionFailed, "cannot switch from tx to confirm mode")
	}
	ch.vhost.lock()
	ch.confirms.on = true
	ch.vhost.unlock()
	if !flags.at(0) {
		ch.reply(confirmSelectOK, nil)
	}
	return nil
}

// confirmPublish notes what became of a message. Acks wait until the reader has
// nothing else to do, and then go as one; nacks go at once, after them.
func (ch *channel) confirmPublish(accepted bool) {
	c := &ch.confirms
	if !c.on {
		return
	}
	if accepted {
		if c.confirmed == c.published {
			ch.conn.unconfirmed = append(ch.conn.unconfirmed, ch)
		}
		c.published++
		return
	}
	ch.sendConfirms()
	c.published++
	c.confirmed = c.published
	ch.replyTag(basicNack, c.published, 0)
}

func (ch *channel) sendConfirms() {
	c := &ch.confirms
	if !c.on || c.confirmed == c.published {
		return
	}
	for c.delayed.Load() > 0 && c.confirmed+1 < c.published { // one for several would confirm these, too
		c.confirmed++
		ch.replyTag(basicAck, c.confirmed, 0)
	}
	multiple := c.published-c.confirmed > 1
	c.confirmed = c.published
	ch.replyTag(basicAck, c.published, bit(0, multiple))
}

// confirmAfter confirms a message after d, and not with those that are published later.
func (ch *channel) confirmAfter(d time.Duration, accepted bool) {
	c := &ch.confirms
	ch.sendConfirms()
	c.published++
	c.confirmed = c.published
	tag := c.published
	c.delayed.Add(1)
	ch.conn.broker.work.Go(func() {
		if ch.conn.sleep(d) {
			ch.confirmDelayed(tag, accepted)
		}
	})
}

func (ch *channel) confirmDelayed(tag uint64, accepted bool) {
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if ch.ended {
		return
	}
	id := basicNack
	if accepted {
		id = basicAck
	}
	ch.replyTag(id, tag, 0)
	ch.confirms.delayed.Add(-1)
}

func (ch *channel) replyTag(id methodID, tag uint64, flags byte) {
	ch.reply(id, func(b []byte) []byte { return append(binary.BigEndian.AppendUint64(b, tag), flags) })
}
