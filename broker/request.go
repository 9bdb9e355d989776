package broker

// requestNamed returns the method with a name, such as basic.publish.
func requestNamed(name string) (methodID, bool) {
	id, known := map[string]methodID{
		"exchange.declare": exchangeDeclare,
		"exchange.delete":  exchangeDelete,
		"exchange.bind":    exchangeBind,
		"exchange.unbind":  exchangeUnbind,
		"queue.declare":    queueDeclare,
		"queue.bind":       queueBind,
		"queue.unbind":     queueUnbind,
		"queue.purge":      queuePurge,
		"queue.delete":     queueDelete,
		"basic.publish":    basicPublish,
		"basic.qos":        basicQos,
		"basic.consume":    basicConsume,
		"basic.cancel":     basicCancel,
		"basic.get":        basicGet,
		"basic.ack":        basicAck,
		"basic.nack":       basicNack,
		"basic.reject":     basicReject,
		"confirm.select":   confirmSelect,
		"tx.select":        txSelect,
		"tx.commit":        txCommit,
		"tx.rollback":      txRollback,
	}[name]
	return id, known
}

// faultRequest returns the arguments of a method for Fault.Match. args is a copy, so that
// the method can still read them.
func (ch *channel) faultRequest(id methodID, args decoder) Request {
	r := Request{VHost: ch.vhost.name, User: ch.conn.user}
	switch id {
	case basicPublish:
		in := &ch.incoming
		r.Exchange, r.RoutingKey, r.Mandatory, r.Body = in.exchange, in.key, in.mandatory, in.body
	case exchangeDeclare, exchangeDelete:
		args.short()
		r.Exchange = args.shortstr()
	case queueDeclare, queuePurge, queueDelete, basicConsume, basicGet:
		args.short()
		r.Queue = args.shortstr()
	case queueBind, queueUnbind:
		args.short()
		r.Queue, r.Exchange, r.RoutingKey = args.shortstr(), args.shortstr(), args.shortstr()
	case exchangeBind, exchangeUnbind:
		args.short()
		args.shortstr() // the destination
		r.Exchange, r.RoutingKey = args.shortstr(), args.shortstr()
	}
	return r
}
