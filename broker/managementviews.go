package broker

import (
	"maps"
	"net/http"
	"slices"
)

func getOverview(r *managementRequest) (status int, body any) {
	cfg := r.broker.cfg
	totals := r.broker.totals()
	return http.StatusOK, columns(view{
		"cluster_name":       cfg.ClusterName,
		"node":               cfg.ClusterName,
		"management_version": cfg.Release.Version(),
		"rabbitmq_version":   cfg.Release.Version(),
		"product_name":       "Watership",
		"product_version":    cfg.Release.Version(),
		"object_totals":      totals.objects(),
		"queue_totals":       totals.messages(),
		"message_stats":      view{},
		"listeners":          r.broker.listening(),
		"exchange_types":     exchangeTypes(),
	}, r.URL.Query())
}

func exchangeTypes() (all []view) {
	for _, kind := range []string{"direct", "fanout", "headers", "topic", consistentHash} {
		all = append(all, view{"name": kind, "enabled": true})
	}
	return all
}

// totals are the numbers of objects in all virtual hosts.
type totals struct{ connections, channels, consumers, exchanges, queues, ready, unacked int }

func (b *Broker) totals() totals {
	var sum totals
	for _, c := range b.openConnections() {
		sum.connections++
		c.vhost.lock()
		sum.channels += len(c.channels)
		c.vhost.unlock()
	}
	for _, v := range b.vhosts {
		v.lock()
		sum.exchanges += len(v.exchanges)
		sum.queues += len(v.queues)
		for _, q := range v.queues {
			sum.consumers += len(q.consumers)
		}
		ready, unacked := v.messages()
		v.unlock()
		sum.ready, sum.unacked = sum.ready+ready, sum.unacked+unacked
	}
	return sum
}

func (t totals) objects() view {
	return view{
		"connections": t.connections, "channels": t.channels, "consumers": t.consumers,
		"exchanges": t.exchanges, "queues": t.queues,
	}
}

func (t totals) messages() view { return messageCounts(t.ready, t.unacked) }

func messageCounts(ready, unacked int) view {
	return view{"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}
}

func (v *vhost) messages() (ready, unacked int) {
	for _, q := range v.queues {
		ready, unacked = ready+q.ready.len(), unacked+q.unacked
	}
	return ready, unacked
}

func (b *Broker) listening() []view {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []view{}
	for listener := range b.listeners {
		host, port := hostPort(listener.Addr())
		all = append(all, view{"node": b.cfg.ClusterName, "protocol": "amqp", "ip_address": host, "port": port})
	}
	return all
}

func getLogin(r *managementRequest) (status int, body any) {
	return http.StatusOK, view{"name": r.user, "tags": []string{"administrator"}, "is_internal_user": true}
}

func listNodes(r *managementRequest) (status int, body any) {
	m := r.broker.memory
	return r.list([]view{{
		"name": r.broker.cfg.ClusterName, "type": "disc", "running": true, "partitions": []string{},
		"mem_used": m.used.Load(), "mem_limit": m.external.limit.Load(), "mem_alarm": m.external.on.Load(),
		"disk_free_alarm": false,
	}})
}

func listUsers(r *managementRequest) (status int, body any) {
	all := []view{}
	for _, user := range slices.Sorted(maps.Keys(r.broker.cfg.Users)) {
		all = append(all, view{"name": user, "tags": []string{"administrator"}, "limits": view{}})
	}
	return r.list(all)
}

// listPermissions lists all permissions for every user.
func listPermissions(r *managementRequest) (status int, body any) {
	all := []view{}
	for _, user := range slices.Sorted(maps.Keys(r.broker.cfg.Users)) {
		for _, vhost := range slices.Sorted(maps.Keys(r.broker.vhosts)) {
			all = append(all, view{"user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"})
		}
	}
	return r.list(all)
}

func listVHosts(r *managementRequest) (status int, body any) {
	return r.list(r.inVHosts(func(v *vhost) []view { return []view{v.view()} }))
}

func getVHost(r *managementRequest) (status int, body any) { return r.one((*vhost).view) }

func (v *vhost) view() view {
	shown := messageCounts(v.messages())
	maps.Copy(shown, view{
		"name": v.name, "description": "", "tags": []string{}, "tracing": false, "default_queue_type": "classic",
		"cluster_state": view{v.broker.cfg.ClusterName: "running"},
	})
	return shown
}

func getAlive(*managementRequest) (status int, body any) { return http.StatusOK, view{"status": "ok"} }
