package broker

// exchange routes messages to queues and other exchanges (§3.1.3).
type exchange struct {
	name, kind string
	durable    bool
	autoDelete bool
	internal   bool
	args       table
	policy     *policy // nil for none
	alternate  string  // exchange for messages without a matching binding; "" for none

	matcher     matcher
	bindings    map[string]*binding // from this exchange, by identity
	inbound     map[*binding]struct{}
	lastRouting uint64 // the last routing that visited it
}

// binding routes messages from an exchange to a queue or another exchange.
type binding struct {
	source *exchange
	queue  *queue    // nil: to an exchange
	target *exchange // nil: to a queue
	key    string
	args   table

	id        string        // see identity
	listIndex int           // in its bindingList
	headers   headerPattern // of a headers exchange
}

// bindingList is an unordered list of bindings, with removal in constant time.
type bindingList []*binding

func (l *bindingList) add(b *binding) {
	b.listIndex = len(*l)
	*l = append(*l, b)
}

func (l *bindingList) remove(b *binding) {
	all := *l
	end := len(all) - 1
	all[b.listIndex] = all[end]
	all[b.listIndex].listIndex = b.listIndex
	all[end] = nil
	*l = all[:end]
}

// matcher finds the bindings that match a message.
type matcher interface {
	add(*binding)
	remove(*binding)
	match(key string, m *message, visit func(*binding))
}

func newExchange(name, kind string, args table) *exchange {
	return &exchange{
		name: name, kind: kind, args: args, matcher: newMatcher(kind, args),
		bindings: map[string]*binding{}, inbound: map[*binding]struct{}{},
	}
}

func newMatcher(kind string, args table) matcher {
	switch kind {
	case "direct":
		return &directMatcher{}
	case "fanout":
		return &fanoutMatcher{}
	case "topic":
		return &topicMatcher{}
	case "headers":
		return &headersMatcher{}
	case consistentHash:
		return newHashMatcher(args)
	}
	return nil
}

// identity returns the same text for equal bindings. A short string has no NUL but in
// its length, so that different parts never give the same text.
func (b *binding) identity() string {
	name, kind := "", byte('e')
	if b.queue != nil {
		name, kind = b.queue.name, 'q'
	} else {
		name = b.target.name
	}
	id := appendShortstr([]byte{kind}, name)
	return string(appendShortstr(id, b.key)) + b.args.canonical()
}

func (v *vhost) bind(b *binding) *exception {
	b.id = b.identity()
	if _, there := b.source.bindings[b.id]; there {
		return nil
	}
	if err := b.valid(); err != nil {
		return err
	}
	if v.bindings >= v.limits.Bindings {
		return newException(resourceError, "binding limit in vhost '%s' (%d) is reached", v.name, v.limits.Bindings)
	}
	if err := v.reserveTopology(b.bytes()); err != nil {
		return err
	}
	v.bindings++
	b.source.bindings[b.id] = b
	b.source.matcher.add(b)
	if b.queue != nil {
		b.queue.inbound[b] = struct{}{}
	} else {
		b.target.inbound[b] = struct{}{}
	}
	return nil
}

// valid returns the error of RabbitMQ for a binding that its exchange does not accept.
func (b *binding) valid() *exception {
	switch b.source.kind {
	case "headers":
		return validHeaderArguments(b.args)
	case consistentHash:
		return validWeight(b.key)
	}
	return nil
}

// unbindSame removes the equal binding, if there is one.
func (v *vhost) unbindSame(like *binding) {
	if b, there := like.source.bindings[like.identity()]; there {
		v.unbind(b)
	}
}

// unbind removes a binding, and an auto-delete exchange with its last one.
func (v *vhost) unbind(b *binding) {
	v.bindings--
	v.releaseTopology(b.bytes())
	delete(b.source.bindings, b.id)
	b.source.matcher.remove(b)
	if b.queue != nil {
		delete(b.queue.inbound, b)
	} else {
		delete(b.target.inbound, b)
	}
	if b.source.autoDelete && len(b.source.bindings) == 0 {
		v.deleteExchange(b.source)
	}
}

func (v *vhost) deleteExchange(x *exchange) {
	x.autoDelete = false // being deleted
	delete(v.exchanges, x.name)
	v.releaseTopology(x.bytes())
	for _, b := range x.bindings {
		v.unbind(b)
	}
	for b := range x.inbound {
		v.unbind(b)
	}
}

// directMatcher matches a routing key that equals the one of the binding (§3.1.3.1).
type directMatcher struct{ byKey map[string]*bindingList }

func (d *directMatcher) add(b *binding) {
	if d.byKey == nil {
		d.byKey = map[string]*bindingList{}
	}
	if d.byKey[b.key] == nil {
		d.byKey[b.key] = &bindingList{}
	}
	d.byKey[b.key].add(b)
}

func (d *directMatcher) remove(b *binding) {
	same := d.byKey[b.key]
	if same.remove(b); len(*same) == 0 {
		delete(d.byKey, b.key)
	}
}

func (d *directMatcher) match(key string, _ *message, visit func(*binding)) {
	if same := d.byKey[key]; same != nil {
		for _, b := range *same {
			visit(b)
		}
	}
}

// fanoutMatcher matches every message (§3.1.3.2).
type fanoutMatcher struct{ all bindingList }

func (f *fanoutMatcher) add(b *binding)    { f.all.add(b) }
func (f *fanoutMatcher) remove(b *binding) { f.all.remove(b) }

func (f *fanoutMatcher) match(_ string, _ *message, visit func(*binding)) {
	for _, b := range f.all {
		visit(b)
	}
}
