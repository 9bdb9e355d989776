package broker

// route returns the queues of a message that is published to an exchange, each once.
// The result is valid until the next routing.
func (v *vhost) route(x *exchange, m *message) []*queue {
	v.routings++
	v.targets = v.targets[:0]
	v.routeThrough(x, m)
	return v.targets
}

// routeThrough adds the queues of an exchange and of the exchanges that are bound to
// it. Where no binding matches, it adds the queues of the alternate exchange
// (https://www.rabbitmq.com/docs/ae). It visits an exchange once for each message.
func (v *vhost) routeThrough(x *exchange, m *message) {
	if x.lastRouting == v.routings {
		return
	}
	x.lastRouting = v.routings
	matched := false
	visit := func(b *binding) {
		matched = true
		if b.queue != nil {
			v.addTarget(b.queue)
		} else {
			v.routeThrough(b.target, m)
		}
	}
	for _, key := range m.keys {
		if x.name == "" {
			v.addQueueNamed(key, &matched)
		} else {
			x.matcher.match(key, m, visit)
		}
	}
	if alternate := v.exchanges[x.alternate]; !matched && x.alternate != "" && alternate != nil {
		v.routeThrough(alternate, m)
	}
}

// addQueueNamed adds the queue with a name: every queue is bound to the default
// exchange by its name (§3.1.3.1).
func (v *vhost) addQueueNamed(name string, matched *bool) {
	q, there := v.queues[name]
	if !there && !v.rabbitmq.isBefore43() {
		q, there = v.replies[name]
	}
	if there {
		*matched = true
		v.addTarget(q)
	}
}

func (v *vhost) addTarget(q *queue) {
	if q.lastRouting != v.routings {
		q.lastRouting = v.routings
		v.targets = append(v.targets, q)
	}
}
