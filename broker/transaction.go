package broker

// transaction holds the publishes and acknowledgements of a channel's next commit
// (https://www.rabbitmq.com/docs/semantics#tx). The reader alone uses it.
type transaction struct {
	publishes   []routed
	settlements []settlement
	bytes       int64 // of the publishes
	refused     bool  // a fault refused a publish
}

// routed is a message with the queues that it was routed to when it was published.
type routed struct {
	message   *message
	targets   []*queue
	mandatory bool
}

// settlement is an acknowledgement of deliveries.
type settlement struct {
	deliveries []outstanding
	verdict    verdict
}

func (ch *channel) doTransaction(id methodID) *exception {
	switch id {
	case txSelect:
		return ch.txSelect()
	case txCommit:
		return ch.txCommit()
	case txRollback:
		return ch.txRollback()
	}
	return unknownMethod(id)
}

func (ch *channel) txSelect() *exception {
	if ch.confirms.on {
		return fail(preconditionFailed, "cannot switch from confirm to tx mode")
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if ch.tx == nil {
		ch.tx = &transaction{}
	}
	ch.reply(txSelectOK, nil)
	return nil
}

// txCommit answers once everything is done. A publish that a queue refuses closes the
// channel, and the rest is done all the same.
func (ch *channel) txCommit() *exception {
	if ch.tx == nil {
		return notTransactional()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	tx := ch.beginTransaction()
	complete := !tx.refused
	for _, p := range tx.publishes {
		complete = ch.enqueue(p) && complete
	}
	for _, s := range tx.settlements {
		ch.apply(s)
	}
	if !complete {
		return fail(preconditionFailed, "partial tx completion")
	}
	ch.reply(txCommitOK, nil)
	return nil
}

func (ch *channel) txRollback() *exception {
	if ch.tx == nil {
		return notTransactional()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	ch.rollBack()
	ch.reply(txRollbackOK, nil)
	return nil
}

func notTransactional() *exception {
	return fail(preconditionFailed, "channel is not transactional")
}

// rollBack drops publishes, and makes acknowledged deliveries outstanding again.
func (ch *channel) rollBack() {
	if ch.tx == nil {
		return
	}
	for _, s := range ch.beginTransaction().settlements {
		ch.unacked.restore(s.deliveries)
	}
}

// beginTransaction begins the next transaction and returns the former one.
func (ch *channel) beginTransaction() transaction {
	former := *ch.tx
	*ch.tx = transaction{}
	ch.vhost.memory.addUnfinished(-former.bytes)
	return former
}

// add keeps a publish for the commit. One that alone exceeds the memory limit could
// never be committed.
func (tx *transaction) add(p routed, m *memory) *exception {
	bytes := p.message.size() + entryOverhead
	if limit := m.outside.limit.Load(); tx.bytes+bytes > limit {
		return fail(preconditionFailed, "a transaction is larger than the memory limit (%d bytes)", limit)
	}
	tx.publishes = append(tx.publishes, p)
	tx.bytes += bytes
	m.addUnfinished(bytes)
	return nil
}
