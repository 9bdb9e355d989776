package broker

import "encoding/binary"

// confirms are a channel's publisher confirms
// (https://www.rabbitmq.com/docs/confirms#publisher-confirms). The reader alone
// uses them.
type confirms struct {
	on        bool   // guarded by the vhost's lock for others
	published uint64 // messages since confirm.select
	told      uint64 // up to which the client knows
}

func (ch *channel) confirmSelect(args *decoder) *exception {
	flags := args.bits()
	switch {
	case args.bad:
		return errShort()
	case ch.tx != nil:
		return fail(preconditionFailed, "cannot switch from tx to confirm mode")
	}
	ch.vhost.lock()
	ch.confirms.on = true
	ch.vhost.unlock()
	if !flags.at(0) {
		ch.reply(confirmSelectOK, nil)
	}
	return nil
}

// settlePublish notes what became of a message. Acks wait until the reader has
// nothing else to do, and then go as one; nacks go at once, after them.
func (ch *channel) settlePublish(accepted bool) {
	c := &ch.confirms
	if !c.on {
		return
	}
	if accepted {
		if c.told == c.published {
			ch.conn.unsettled = append(ch.conn.unsettled, ch)
		}
		c.published++
		return
	}
	ch.sendConfirms()
	c.published++
	c.told = c.published
	ch.replyTag(basicNack, c.published, 0)
}

func (ch *channel) sendConfirms() {
	c := &ch.confirms
	if !c.on || c.told == c.published {
		return
	}
	multiple := c.published-c.told > 1
	c.told = c.published
	ch.replyTag(basicAck, c.published, bit(0, multiple))
}

func (ch *channel) replyTag(id methodID, tag uint64, flags byte) {
	ch.reply(id, func(b []byte) []byte { return append(binary.BigEndian.AppendUint64(b, tag), flags) })
}
