package broker

import "time"

// blockedHeartbeat is the interval of heartbeats to a blocked client, whatever was
// negotiated: the broker does not read from a blocked client, and notices its end only
// when a write fails.
const blockedHeartbeat = 2 * time.Second

// awaitMemory blocks a connection that publishes while the broker is out of memory, and
// notifies a client with the capability
// (https://www.rabbitmq.com/docs/connection-blocked). Other connections go on.
func (c *connection) awaitMemory() {
	memory := c.broker.memory
	if memory.isExempt(c) {
		if c.hasUnfinishedPublish() {
			return
		}
		memory.endExemption(c)
	}
	cleared := memory.alarmFor(c).cleared()
	if cleared == nil {
		return
	}
	c.sendConfirms()
	c.log.Info("publisher blocked: out of memory")
	notifies := c.hasCapability("connection.blocked")
	if notifies {
		c.out.method(0, connectionBlocked, func(b []byte) []byte { return appendShortstr(b, "low on memory") })
	}
	c.blocked.Store(true)
	defer c.blocked.Store(false)
	if !c.awaitAlarmEnd(cleared) {
		return
	}
	c.log.Info("publisher unblocked")
	if notifies {
		c.out.method(0, connectionUnblocked, nil)
	}
}

// hasUnfinishedPublish reports whether the broker has a part of a message, or publishes
// of an open transaction.
func (c *connection) hasUnfinishedPublish() bool {
	for _, ch := range c.channels {
		if ch.incoming.state != awaitingMethod || ch.tx != nil && len(ch.tx.publishes) > 0 {
			return true
		}
	}
	return false
}

// awaitAlarmEnd waits for the end of an alarm, or until the connection may finish its
// message. It returns false where the connection or the broker ends first.
func (c *connection) awaitAlarmEnd(alarm <-chan struct{}) bool {
	beat := time.NewTicker(blockedHeartbeat)
	defer beat.Stop()
	for {
		select {
		case <-alarm:
			return true
		case <-beat.C:
			if c.hasUnfinishedPublish() && c.broker.memory.tryExempt(c) {
				return true
			}
			c.out.heartbeat()
		case <-c.writerDone:
			return false
		case <-c.broker.done:
			return false
		}
	}
}
