package broker

import "slices"

// exchange routes messages to queues and other exchanges (§3.1.3).
type exchange struct {
	name, kind string
	durable    bool
	autoDelete bool
	internal   bool
	args       table
	alternate  string // where messages go that nothing here takes; "" for nowhere

	matcher  matcher
	bindings map[string]*binding // from this exchange, by what identifies one
	inbound  map[*binding]struct{}
	routed   uint64 // the routing that came by last
}

// binding lets messages through from an exchange to a queue or another exchange.
type binding struct {
	source *exchange
	queue  *queue    // or
	target *exchange // the other is nil
	key    string
	args   table

	headers headerPattern // of a headers exchange
}

// matcher finds the bindings that let a message through.
type matcher interface {
	add(*binding)
	remove(*binding)
	match(key string, m *message, visit func(*binding))
}

func newExchange(name, kind string) *exchange {
	return &exchange{
		name: name, kind: kind, matcher: newMatcher(kind),
		bindings: map[string]*binding{}, inbound: map[*binding]struct{}{},
	}
}

func newMatcher(kind string) matcher {
	switch kind {
	case "direct":
		return &directMatcher{}
	case "fanout":
		return &fanoutMatcher{}
	case "topic":
		return &topicMatcher{}
	case "headers":
		return &headersMatcher{}
	}
	return nil
}

// identity is the same for bindings that are the same. Names cannot hold the NUL
// of their lengths, so parts do not run together.
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
	id := b.identity()
	if _, there := b.source.bindings[id]; there {
		return nil
	}
	if b.source.kind == "headers" {
		if err := validHeaderArguments(b.args); err != nil {
			return err
		}
	}
	if v.bindings >= v.limits.Bindings {
		return fail(resourceError, "binding limit in vhost '%s' (%d) is reached", v.name, v.limits.Bindings)
	}
	v.bindings++
	b.source.bindings[id] = b
	b.source.matcher.add(b)
	if b.queue != nil {
		b.queue.inbound[b] = struct{}{}
	} else {
		b.target.inbound[b] = struct{}{}
	}
	return nil
}

// unbind removes a binding, and the exchange it came from where that was to go
// with its last one. A binding that is not there is as good as removed.
func (v *vhost) unbind(like *binding) {
	id := like.identity()
	b, there := like.source.bindings[id]
	if !there {
		return
	}
	v.bindings--
	delete(b.source.bindings, id)
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
	x.autoDelete = false // it is going already
	delete(v.exchanges, x.name)
	for _, b := range x.bindings {
		v.unbind(b)
	}
	for b := range x.inbound {
		v.unbind(b)
	}
}

// directMatcher: the routing key is the binding's (§3.1.3.1).
type directMatcher struct{ byKey map[string][]*binding }

func (d *directMatcher) add(b *binding) {
	if d.byKey == nil {
		d.byKey = map[string][]*binding{}
	}
	d.byKey[b.key] = append(d.byKey[b.key], b)
}

func (d *directMatcher) remove(b *binding) {
	rest := without(d.byKey[b.key], b)
	if d.byKey[b.key] = rest; len(rest) == 0 {
		delete(d.byKey, b.key)
	}
}

func (d *directMatcher) match(key string, _ *message, visit func(*binding)) {
	for _, b := range d.byKey[key] {
		visit(b)
	}
}

// fanoutMatcher: every message (§3.1.3.2).
type fanoutMatcher struct{ all []*binding }

func (f *fanoutMatcher) add(b *binding)    { f.all = append(f.all, b) }
func (f *fanoutMatcher) remove(b *binding) { f.all = without(f.all, b) }

func (f *fanoutMatcher) match(_ string, _ *message, visit func(*binding)) {
	for _, b := range f.all {
		visit(b)
	}
}

func without(all []*binding, gone *binding) []*binding {
	return slices.DeleteFunc(all, func(b *binding) bool { return b == gone })
}
