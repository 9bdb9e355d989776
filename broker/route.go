package broker

// route finds the queues that a message published to an exchange goes to, each
// once. The result is valid until the next routing.
func (v *vhost) route(x *exchange, m *message) []*queue {
	v.routes++
	v.targets = v.targets[:0]
	v.follow(x, m)
	return v.targets
}

// follow adds an exchange's queues, goes on to the exchanges bound to it, and to
// its alternate where it has nowhere to send to
// (https://www.rabbitmq.com/docs/ae). An exchange is asked once for each message.
func (v *vhost) follow(x *exchange, m *message) {
	if x.routed == v.routes {
		return
	}
	x.routed = v.routes
	matched := false
	visit := func(b *binding) {
		matched = true
		if b.queue != nil {
			v.addTarget(b.queue)
		} else {
			v.follow(b.target, m)
		}
	}
	for _, key := range m.keys {
		if x.name == "" {
			v.addNamed(key, &matched)
		} else {
			x.matcher.match(key, m, visit)
		}
	}
	if alternate := v.exchanges[x.alternate]; !matched && x.alternate != "" && alternate != nil {
		v.follow(alternate, m)
	}
}

// addNamed: every queue is bound to the default exchange by its name (§3.1.3.1).
func (v *vhost) addNamed(name string, matched *bool) {
	if q, there := v.queues[name]; there {
		*matched = true
		v.addTarget(q)
	}
}

func (v *vhost) addTarget(q *queue) {
	if q.routed != v.routes {
		q.routed = v.routes
		v.targets = append(v.targets, q)
	}
}
