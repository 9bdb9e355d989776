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
	if b := ch.vhost.queueBound(name, source, key, arguments); b != nil { // else it is unbound, as asked for
		if err := ch.mayUse(b.queue); err != nil {
			return err
		}
		ch.vhost.unbind(b)
	}
	ch.reply(queueUnbindOK, nil)
	return nil
}

// queueBound finds a binding of a queue; nil where there is none.
func (v *vhost) queueBound(queue, source, key string, arguments table) *binding {
	q, x := v.queues[queue], v.exchanges[source]
	if q == nil || x == nil {
		return nil
	}
	like := &binding{source: x, queue: q, key: key, args: arguments}
	return x.bindings[like.identity()]
}

// queueBinding names the two ends of a binding, which must be there.
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

// exchangeBind binds an exchange to another, or unbinds it.
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
		err = nil // gone is as good as unbound
	}
	if err == nil && !flags.at(0) {
		ch.reply(ok, nil)
	}
	return err
}

// exchangeBinding names the two ends of a binding, which must be there.
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

// unbindExisting is unbind, which cannot fail.
func (v *vhost) unbindExisting(b *binding) *exception {
	v.unbindSame(b)
	return nil
}
