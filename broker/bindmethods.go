package broker

func (ch *channel) queueBind(args *decoder) *exception {
	args.short()
	name, source, key, flags := args.shortstr(), args.shortstr(), args.shortstr(), args.bits()
	arguments, err := args.arguments()
	if err != nil {
		return err
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if name == "" && key == "" {
		key = ch.lastQueue
	}
	b, err := ch.queueBinding(name, source)
	if err != nil {
		return err
	}
	b.key, b.args = key, arguments
	if err = ch.vhost.bind(b); err == nil && !flags.at(0) {
		ch.reply(queueBindOK, nil)
	}
	return err
}

func (ch *channel) queueUnbind(args *decoder) *exception {
	args.short()
	name, source, key := args.shortstr(), args.shortstr(), args.shortstr()
	arguments, err := args.arguments()
	if err != nil {
		return err
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if name, err = ch.queueName(name); err != nil {
		return err
	}
	if source == "" {
		return defaultExchangeRefused()
	}
	if b := ch.vhost.queueBound(name, source, key, arguments); b != nil { // else there is nothing to unbind
		if err := ch.mayUse(b.queue); err != nil {
			return err
		}
		ch.vhost.unbind(b)
	}
	ch.reply(queueUnbindOK, nil)
	return nil
}

// queueBound returns a binding of a queue; nil where it does not exist.
func (v *vhost) queueBound(queue, source, key string, arguments table) *binding {
	q, x := v.queues[queue], v.exchanges[source]
	if q == nil || x == nil {
		return nil
	}
	like := &binding{source: x, queue: q, key: key, args: arguments}
	return x.bindings[like.identity()]
}

// queueBinding returns a binding with its source and its queue, which must exist.
func (ch *channel) queueBinding(queue, source string) (*binding, *exception) {
	if source == "" {
		return nil, defaultExchangeRefused()
	}
	x, there := ch.vhost.exchanges[source]
	if !there {
		return nil, ch.vhost.exchangeNotFound(source)
	}
	q, err := ch.usableQueue(queue)
	if err != nil {
		return nil, err
	}
	return &binding{source: x, queue: q}, nil
}

// exchangeBind handles exchange.bind and exchange.unbind.
func (ch *channel) exchangeBind(args *decoder, ok methodID, act func(*binding) *exception) *exception {
	args.short()
	destination, source, key, flags := args.shortstr(), args.shortstr(), args.shortstr(), args.bits()
	arguments, err := args.arguments()
	if err != nil {
		return err
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	b, err := ch.vhost.exchangeBinding(destination, source)
	if err == nil {
		b.key, b.args = key, arguments
		err = act(b)
	}
	if ok == exchangeUnbindOK && err != nil && err.code == notFound {
		err = nil // a missing exchange has no bindings
	}
	if err == nil && !flags.at(0) {
		ch.reply(ok, nil)
	}
	return err
}

// exchangeBinding returns a binding with its source and its target, which must exist.
func (v *vhost) exchangeBinding(destination, source string) (*binding, *exception) {
	b := &binding{source: v.exchanges[source], target: v.exchanges[destination]}
	switch {
	case source == "" || destination == "":
		return nil, defaultExchangeRefused()
	case b.source == nil:
		return nil, v.exchangeNotFound(source)
	case b.target == nil:
		return nil, v.exchangeNotFound(destination)
	}
	return b, nil
}

// unbindExisting is unbindSame with the signature of bind. It does not fail.
func (v *vhost) unbindExisting(b *binding) *exception {
	v.unbindSame(b)
	return nil
}
