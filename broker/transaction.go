package broker

import "cmp"

// transaction holds the publishes and acknowledgements of a channel until the next
// commit (https://www.rabbitmq.com/docs/semantics#tx). Only the reader uses it.
type transaction struct {
	publishes        []routed
	acknowledgements []acknowledgement
	bytes            int64 // of the publishes
	refused          bool  // a fault refused a publish
}

// routed is a message with its queues at the time of its publish.
type routed struct {
	message   *message
	targets   []*queue
	mandatory bool
}

// acknowledgement is a disposition of deliveries.
type acknowledgement struct {
	deliveries  []unackedDelivery
	disposition disposition
	failed      bool // see channel.acknowledge
}

func (ch *channel) handleTxMethod(id methodID) *exception {
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
		return newException(preconditionFailed, "cannot switch from confirm to tx mode")
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if ch.tx == nil {
		ch.tx = &transaction{}
	}
	ch.reply(txSelectOK, nil)
	return nil
}

// txCommit performs the transaction and replies. Where a queue rejects a publish or was
// deleted, the rest is performed, and the channel or the connection is closed.
func (ch *channel) txCommit() *exception {
	if ch.tx == nil {
		return notInTransaction()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	tx := ch.resetTransaction()
	complete := !tx.refused
	var gone *queue
	for _, p := range tx.publishes {
		gone = cmp.Or(gone, p.deletedTarget())
		complete = ch.enqueue(p) && complete
	}
	for _, s := range tx.acknowledgements {
		ch.apply(s)
	}
	switch {
	case gone != nil && !ch.vhost.rabbitmq.isBefore43():
		return newException(resourceError, "failed to deliver message: {not_found, %s}", gone.description())
	case gone != nil, !complete:
		return newException(preconditionFailed, "partial tx completion")
	}
	ch.reply(txCommitOK, nil)
	return nil
}

// deletedTarget returns a queue of the message that was deleted since, and for whose
// deletion the commit fails; nil where none exists.
func (p routed) deletedTarget() *queue {
	for _, q := range p.targets {
		if q.deleted && !q.replies && (!q.settings.quorum || !q.vhost.rabbitmq.isBefore43()) {
			return q
		}
	}
	return nil
}

func (ch *channel) txRollback() *exception {
	if ch.tx == nil {
		return notInTransaction()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	ch.rollBack()
	ch.reply(txRollbackOK, nil)
	return nil
}

func notInTransaction() *exception {
	return newException(preconditionFailed, "channel is not transactional")
}

// rollBack drops publishes, and makes acknowledged deliveries unacknowledged again.
func (ch *channel) rollBack() {
	if ch.tx == nil {
		return
	}
	for _, s := range ch.resetTransaction().acknowledgements {
		ch.unacked.restore(s.deliveries)
	}
}

// resetTransaction starts the next transaction and returns the previous one.
func (ch *channel) resetTransaction() transaction {
	former := *ch.tx
	*ch.tx = transaction{}
	ch.vhost.memory.addUnfinished(-former.bytes)
	return former
}

// add adds a publish. It returns an error where the transaction alone exceeds the
// memory limit and could never be committed.
func (tx *transaction) add(p routed, m *memory) *exception {
	bytes := p.message.size() + messageOverhead
	if limit := m.external.limit.Load(); tx.bytes+bytes > limit {
		return newException(preconditionFailed, "a transaction is larger than the memory limit (%d bytes)", limit)
	}
	tx.publishes = append(tx.publishes, p)
	tx.bytes += bytes
	m.addUnfinished(bytes)
	return nil
}
