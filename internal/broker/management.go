package broker

import (
	"cmp"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Management answers the requests to RabbitMQ's management API
// (https://www.rabbitmq.com/docs/http-api-reference) that Watership makes; other
// paths are 404. Logins are those of AMQP. Counts do not lag.
func (b *Broker) Management() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := segments(r.URL.EscapedPath())
		refusal := b.refuses(r)
		switch {
		case refusal != "":
			w.Header().Set("WWW-Authenticate", `Basic realm="Watership embedded broker"`)
			answer(w, http.StatusUnauthorized, map[string]string{"error": "not_authorized", "reason": refusal})
		case r.Method != http.MethodGet:
			answer(w, http.StatusMethodNotAllowed, map[string]string{"error": "method_not_allowed", "reason": "read only"})
		case !ok || len(path) < 2 || path[0] != "api":
			notFoundAnswer(w)
		default:
			b.show(w, r, path[1], path[2:])
		}
	})
}

// segments are the parts of a path. http.ServeMux cannot be used: it takes the
// vhost "/", which is %2F in a path, for the end of the path.
func segments(escaped string) (path []string, ok bool) {
	for part := range strings.SplitSeq(strings.TrimPrefix(escaped, "/"), "/") {
		segment, err := url.PathUnescape(part)
		if err != nil {
			return nil, false
		}
		path = append(path, segment)
	}
	return path, true
}

func (b *Broker) refuses(r *http.Request) (why string) {
	user, password, _ := r.BasicAuth()
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return b.cfg.refuses(user, []byte(password), net.TCPAddrFromAddrPort(from))
}

// show answers one request: what is asked for, and the path behind it.
func (b *Broker) show(w http.ResponseWriter, r *http.Request, what string, path []string) {
	switch {
	case what == "overview" && len(path) == 0:
		b.showOverview(w)
	case what == "whoami" && len(path) == 0:
		b.showLogin(w, r)
	case what == "queues" && len(path) == 0:
		b.showAllQueues(w)
	case what == "queues" && len(path) == 1:
		b.inVHost(w, path[0], func(v *vhost) any { return v.queueViews() })
	case what == "queues" && len(path) == 2:
		b.inVHost(w, path[0], func(v *vhost) any { return v.queueView(path[1]) })
	case what == "policies" && len(path) == 1:
		b.inVHost(w, path[0], func(*vhost) any { return []any{} })
	case what == "exchanges" && len(path) == 1:
		b.inVHost(w, path[0], func(v *vhost) any { return v.exchangeViews() })
	case what == "exchanges" && len(path) == 2:
		b.inVHost(w, path[0], func(v *vhost) any { return v.exchangeView(path[1]) })
	case what == "exchanges" && len(path) == 4 && path[2] == "bindings" && path[3] == "source":
		b.inVHost(w, path[0], func(v *vhost) any { return v.bindingViews(path[1]) })
	default:
		notFoundAnswer(w)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}

func notFoundAnswer(w http.ResponseWriter) {
	answer(w, http.StatusNotFound, map[string]string{"error": "Object Not Found", "reason": "Not Found"})
}

func (b *Broker) showOverview(w http.ResponseWriter) {
	answer(w, http.StatusOK, map[string]any{
		"cluster_name":     b.cfg.ClusterName,
		"node":             b.cfg.ClusterName,
		"rabbitmq_version": Version,
		"product_name":     "Watership",
	})
}

func (b *Broker) showLogin(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth()
	answer(w, http.StatusOK, map[string]any{"name": user, "tags": []string{"administrator"}})
}

// inVHost runs f under the lock of a vhost. What f returns is the answer; nil is 404.
func (b *Broker) inVHost(w http.ResponseWriter, vhost string, f func(v *vhost) any) {
	v, there := b.vhosts[vhost]
	if !there {
		notFoundAnswer(w)
		return
	}
	v.lock()
	body := f(v)
	v.unlock()
	if body == nil {
		notFoundAnswer(w)
		return
	}
	answer(w, http.StatusOK, body)
}

func (v *vhost) exchangeViews() any {
	views := []any{}
	for _, name := range slices.Sorted(maps.Keys(v.exchanges)) {
		views = append(views, v.exchangeView(name))
	}
	return views
}

func (v *vhost) exchangeView(name string) any {
	x, there := v.exchanges[name]
	if !there {
		return nil
	}
	return map[string]any{
		"name": x.name, "vhost": v.name, "type": x.kind, "durable": x.durable,
		"auto_delete": x.autoDelete, "internal": x.internal, "arguments": x.args.json(),
	}
}

// bindingView is a binding as the management API shows it.
type bindingView struct {
	Source          string         `json:"source"`
	VHost           string         `json:"vhost"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"`
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"`
}

// bindingViews is empty for an exchange that is not there, as RabbitMQ has it.
func (v *vhost) bindingViews(exchange string) any {
	views := []bindingView{}
	if x, there := v.exchanges[exchange]; there {
		for _, binding := range x.bindings {
			views = append(views, binding.view(v))
		}
	}
	slices.SortFunc(views, func(a, b bindingView) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.RoutingKey, b.RoutingKey))
	})
	return views
}

func (b *binding) view(v *vhost) bindingView {
	view := bindingView{Source: b.source.name, VHost: v.name, RoutingKey: b.key, Arguments: b.args.json()}
	if b.queue != nil {
		view.Destination, view.DestinationType = b.queue.name, "queue"
	} else {
		view.Destination, view.DestinationType = b.target.name, "exchange"
	}
	return view
}

func (v *vhost) queueView(name string) any {
	q, there := v.queues[name]
	if !there {
		return nil
	}
	return q.view()
}

func (b *Broker) showAllQueues(w http.ResponseWriter) {
	all := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(b.vhosts)) {
		v := b.vhosts[name]
		v.lock()
		all = append(all, v.queueViews()...)
		v.unlock()
	}
	answer(w, http.StatusOK, all)
}

func (v *vhost) queueViews() []map[string]any {
	views := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(v.queues)) {
		views = append(views, v.queues[name].view())
	}
	return views
}

// view is a queue as the management API shows it. There are no policies.
func (q *queue) view() map[string]any {
	kind := "classic"
	if q.settings.quorum {
		kind = "quorum"
	}
	return map[string]any{
		"name": q.name, "vhost": q.vhost.name, "type": kind, "state": "running",
		"durable": q.durable, "auto_delete": q.autoDelete, "exclusive": q.owner != nil,
		"arguments": q.args.json(), "policy": nil, "operator_policy": nil,
		"effective_policy_definition": map[string]any{},
		"message_stats":               map[string]any{"publish": q.positions, "ack": q.settled},
		"messages":                    q.ready.len() + q.unacked,
		"messages_ready":              q.ready.len(),
		"messages_unacknowledged":     q.unacked,
		"messages_dlx":                len(q.stuck),
		"consumers":                   len(q.consumers),
	}
}
