package broker

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func listExchanges(r *managementRequest) (status int, body any) {
	return r.list(r.inVHosts(func(v *vhost) []view {
		var all []view
		for _, name := range slices.Sorted(maps.Keys(v.exchanges)) {
			all = append(all, v.exchanges[name].view(v))
		}
		return all
	}))
}

func getExchange(r *managementRequest) (status int, body any) {
	return r.one(func(v *vhost) view {
		if x, there := v.exchanges[exchangeName(r.names[0])]; there {
			return x.view(v)
		}
		return nil
	})
}

// exchangeName returns the name of an exchange by its segment of a path, which cannot
// be empty.
func exchangeName(inPath string) string {
	if inPath == "amq.default" {
		return ""
	}
	return inPath
}

func (x *exchange) view(v *vhost) view {
	shown := x.policy.shown()
	maps.Copy(shown, view{
		"name": x.name, "vhost": v.name, "type": x.kind, "durable": x.durable,
		"auto_delete": x.autoDelete, "internal": x.internal, "arguments": x.args.json(),
	})
	return shown
}

func listQueues(r *managementRequest) (status int, body any) {
	return r.list(r.inVHosts(func(v *vhost) []view {
		var all []view
		for _, name := range slices.Sorted(maps.Keys(v.queues)) {
			all = append(all, v.queues[name].view())
		}
		return all
	}))
}

func getQueue(r *managementRequest) (status int, body any) {
	return r.one(func(v *vhost) view {
		if q, there := v.queues[r.names[0]]; there {
			return q.view()
		}
		return nil
	})
}

// view returns a queue as the management API shows it.
func (q *queue) view() view {
	shown := messageCounts(q.ready.len(), q.unacked)
	maps.Copy(shown, view{
		"name": q.name, "vhost": q.vhost.name, "type": q.settings.kind(), "state": "running",
		"node": q.vhost.broker.cfg.ClusterName, "durable": q.durable, "auto_delete": q.autoDelete,
		"exclusive": q.owner != nil, "arguments": q.args.json(),
		"message_stats":       view{"publish": q.positions, "ack": q.acknowledged},
		"message_bytes_ready": q.ready.bytes,
		"messages_dlx":        len(q.undelivered),
		"consumers":           len(q.consumers) + q.holders,
	})
	maps.Copy(shown, q.policy.shown())
	return shown
}

func listBindings(r *managementRequest) (status int, body any) {
	return r.listBindings(func(*binding) bool { return true })
}

func listBindingsFrom(r *managementRequest) (status int, body any) {
	source := exchangeName(r.names[0])
	return r.listBindings(func(b *binding) bool { return b.source.name == source })
}

func listBindingsToExchange(r *managementRequest) (status int, body any) {
	return r.listBindings(func(b *binding) bool { return b.target != nil && b.target.name == r.names[0] })
}

func listBindingsToQueue(r *managementRequest) (status int, body any) {
	return r.listBindings(func(b *binding) bool { return b.queue != nil && b.queue.name == r.names[0] })
}

// listBindingsBetween lists the bindings of a path .../e/source/q/queue or
// .../e/source/e/exchange.
func listBindingsBetween(r *managementRequest) (status int, body any) {
	source := exchangeName(r.names[0])
	return r.listBindings(func(b *binding) bool {
		kind, name := b.destination()
		return b.source.name == source && kind[:1] == r.names[1] && name == r.names[2]
	})
}

func (r *managementRequest) listBindings(wanted func(*binding) bool) (status int, body any) {
	all := []view{}
	for _, v := range r.vhosts() {
		v.lock()
		bindings := slices.Collect(v.allBindings)
		v.unlock() // bindings do not change, and there may be many
		var views []view
		for _, b := range bindings {
			if wanted(b) {
				views = append(views, b.view(v))
			}
		}
		slices.SortFunc(views, compareBindings)
		all = append(all, views...)
	}
	return r.list(all)
}

func compareBindings(a, b view) int {
	for _, column := range []string{"source", "destination", "routing_key"} {
		if c := compare(a[column], b[column]); c != 0 {
			return c
		}
	}
	return compare(a["properties_key"], b["properties_key"])
}

// allBindings yields the bindings of all exchanges. Every queue is bound to the default
// exchange by its name.
func (v *vhost) allBindings(yield func(*binding) bool) {
	for _, q := range v.queues {
		if !yield(&binding{source: v.exchanges[""], queue: q, key: q.name}) {
			return
		}
	}
	for _, x := range v.exchanges {
		for _, b := range x.bindings {
			if !yield(b) {
				return
			}
		}
	}
}

func (b *binding) destination() (kind, name string) {
	if b.queue != nil {
		return "queue", b.queue.name
	}
	return "exchange", b.target.name
}

func (b *binding) view(v *vhost) view {
	kind, name := b.destination()
	return view{
		"source": b.source.name, "vhost": v.name, "destination": name, "destination_type": kind,
		"routing_key": b.key, "arguments": b.args.json(), "properties_key": b.propertiesKey(),
	}
}

// propertiesKey returns the key of a binding among those with the same source and
// destination: the routing key, with a hash of the arguments if it has any.
func (b *binding) propertiesKey() string {
	key := strings.ReplaceAll(url.QueryEscape(b.key), "~", "%7E")
	if len(b.args) > 0 {
		sum := crc32.ChecksumIEEE([]byte(b.args.canonical()))
		return key + "~" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
	}
	return cmp.Or(key, "~")
}

func getBinding(r *managementRequest) (status int, body any) {
	return r.one(func(v *vhost) view {
		if b := v.bindingOf(r.names); b != nil {
			return b.view(v)
		}
		return nil
	})
}

// bindingOf returns a binding by its source, kind of destination, destination and
// properties key; nil where none exists.
func (v *vhost) bindingOf(names []string) *binding {
	x, there := v.exchanges[names[0]]
	if !there {
		return nil
	}
	for _, b := range x.bindings {
		kind, name := b.destination()
		if kind[:1] == names[1] && name == names[2] && b.propertiesKey() == names[3] {
			return b
		}
	}
	return nil
}

func deleteBinding(r *managementRequest) (status int, body any) {
	v := r.vhost
	v.lock()
	defer v.unlock()
	b := v.bindingOf(r.names)
	if b == nil {
		return missing()
	}
	if b.queue != nil {
		if err := r.channel().mayUse(b.queue); err != nil {
			return refused(err)
		}
	}
	v.unbind(b)
	return http.StatusNoContent, nil
}
