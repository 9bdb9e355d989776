package broker

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
)

// openConnections returns the open connections, ordered by name.
func (b *Broker) openConnections() []*connection {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*connection
	for c := range b.connections {
		if c.admitted {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *connection) int { return cmp.Compare(a.name(), b.name()) })
	return all
}

// name returns the name of a connection in the format of RabbitMQ. A connection of Dial
// has no addresses.
func (c *connection) name() string {
	host, port := hostPort(c.stream.RemoteAddr())
	if port == 0 {
		return fmt.Sprintf("%s %d", host, c.number)
	}
	ownHost, ownPort := hostPort(c.stream.LocalAddr())
	return fmt.Sprintf("%s:%d -> %s:%d", host, port, ownHost, ownPort)
}

func hostPort(address net.Addr) (host string, port int) {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.IP.String(), tcp.Port
	}
	return address.String(), 0
}

// connections returns the connections of the virtual host that the request names, or
// all.
func (r *managementRequest) connections() []*connection {
	return slices.DeleteFunc(r.broker.openConnections(), func(c *connection) bool { return r.vhost != nil && c.vhost != r.vhost })
}

func listConnections(r *managementRequest) (status int, body any) {
	all := []view{}
	for _, c := range r.connections() {
		all = append(all, c.view())
	}
	return r.list(all)
}

// connection returns the connection that the path names; nil where none exists.
func (r *managementRequest) connection() *connection {
	for _, c := range r.broker.openConnections() {
		if c.name() == r.names[0] {
			return c
		}
	}
	return nil
}

func getConnection(r *managementRequest) (status int, body any) {
	c := r.connection()
	if c == nil {
		return missing()
	}
	return http.StatusOK, columns(c.view(), r.URL.Query())
}

func closeConnection(r *managementRequest) (status int, body any) {
	c := r.connection()
	if c == nil {
		return missing()
	}
	reason := cmp.Or(r.Header.Get("X-Reason"), "Closed via management plugin")
	c.closeWithError(newException(connectionForced, "%s", reason), 0)
	return http.StatusNoContent, nil
}

func (c *connection) view() view {
	host, port := hostPort(c.stream.LocalAddr())
	peerHost, peerPort := hostPort(c.stream.RemoteAddr())
	c.vhost.lock()
	channels := len(c.channels)
	c.vhost.unlock()
	return view{
		"name": c.name(), "node": c.broker.cfg.ClusterName, "user": c.user, "vhost": c.vhost.name,
		"type": "network", "protocol": "AMQP 0-9-1", "ssl": false, "state": c.state(), "channels": channels,
		"auth_mechanism": c.mechanism, "frame_max": c.frameMax, "channel_max": c.channelMax,
		"timeout": int(c.heartbeat.Seconds()), "client_properties": c.client.json(), "connected_at": c.openedAt.UnixMilli(),
		"host": host, "port": port, "peer_host": peerHost, "peer_port": peerPort,
	}
}

func (c *connection) state() string {
	if c.blocked.Load() {
		return "blocked"
	}
	return "running"
}

func listChannels(r *managementRequest) (status int, body any) {
	return r.listChannels(r.connections())
}

func listConnectionChannels(r *managementRequest) (status int, body any) {
	c := r.connection()
	if c == nil {
		return missing()
	}
	return r.listChannels([]*connection{c})
}

func (r *managementRequest) listChannels(of []*connection) (status int, body any) {
	all := []view{}
	for _, c := range of {
		c.vhost.lock()
		for _, id := range slices.Sorted(maps.Keys(c.channels)) {
			all = append(all, c.channels[id].view())
		}
		c.vhost.unlock()
	}
	return r.list(all)
}

func (ch *channel) name() string { return fmt.Sprintf("%s (%d)", ch.conn.name(), ch.id) }

func (ch *channel) view() view {
	return view{
		"name": ch.name(), "number": ch.id, "node": ch.conn.broker.cfg.ClusterName, "user": ch.conn.user,
		"vhost": ch.vhost.name, "state": ch.conn.state(), "confirm": ch.confirms.on, "transactional": ch.tx != nil,
		"consumer_count": len(ch.consumers), "messages_unacknowledged": len(ch.unacked.items) - ch.unacked.removed,
		"prefetch_count": ch.prefetch, "global_prefetch_count": ch.globalPrefetch, "connection_details": ch.conn.details(),
	}
}

func (c *connection) details() view {
	host, port := hostPort(c.stream.RemoteAddr())
	return view{"name": c.name(), "peer_host": host, "peer_port": port}
}

func listConsumers(r *managementRequest) (status int, body any) {
	return r.list(r.inVHosts(func(v *vhost) []view {
		var all []view
		for _, name := range slices.Sorted(maps.Keys(v.queues)) {
			for _, c := range v.queues[name].consumers {
				all = append(all, c.view())
			}
		}
		return all
	}))
}

func (c *consumer) view() view {
	ch := c.channel
	active := !c.queue.settings.singleActive || c.queue.active == c
	return view{
		"consumer_tag": c.tag, "ack_required": !c.noAck, "exclusive": c.exclusive, "prefetch_count": c.prefetch,
		"active": active, "arguments": view{}, "queue": view{"name": c.queue.name, "vhost": ch.vhost.name},
		"channel_details": view{"name": ch.name(), "number": ch.id, "user": ch.conn.user, "connection_name": ch.conn.name()},
	}
}
