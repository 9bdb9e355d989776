package broker

// awaitMemory keeps a connection that publishes from publishing more while the
// broker is out of memory, and tells a client that wants to know
// (https://www.rabbitmq.com/docs/connection-blocked). Other connections go on.
func (c *connection) awaitMemory() {
	relieved := c.broker.memory.alarmFor(c).relieved()
	if relieved == nil {
		return
	}
	c.confirm()
	c.log.Info("publisher blocked: out of memory")
	tell := c.capable("connection.blocked")
	if tell {
		c.out.method(0, connectionBlocked, func(b []byte) []byte { return appendShortstr(b, "low on memory") })
	}
	select {
	case <-relieved:
	case <-c.gone:
		return
	case <-c.broker.done:
		return
	}
	c.log.Info("publisher unblocked")
	if tell {
		c.out.method(0, connectionUnblocked, nil)
	}
}
