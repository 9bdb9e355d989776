package broker

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// confirms are the publisher confirms of a channel
// (https://www.rabbitmq.com/docs/confirms#publisher-confirms). Only the reader uses
// them.
type confirms struct {
	on        bool         // other goroutines read it under the lock of the virtual host
	published uint64       // messages since confirm.select
	confirmed uint64       // the delivery tag up to which acks and nacks were sent
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

// confirmPublish acks or nacks a message. Acks wait until the reader has no further
// frame, and are sent as one; a nack is sent at once, after them.
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
	for c.delayed.Load() > 0 && c.confirmed+1 < c.published { // an ack of several would include the delayed ones
		c.confirmed++
		ch.replyTag(basicAck, c.confirmed, 0)
	}
	multiple := c.published-c.confirmed > 1
	c.confirmed = c.published
	ch.replyTag(basicAck, c.published, bit(0, multiple))
}

// confirmAfter acks or nacks a message after d, separately from messages that are
// published later.
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
