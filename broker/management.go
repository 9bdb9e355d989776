package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Management returns a handler for a part of the management API of RabbitMQ
// (https://www.rabbitmq.com/docs/http-api-reference): it lists objects, declares,
// deletes and purges exchanges, queues and bindings, sets policies, publishes and gets messages, and
// closes connections. It has the logins of AMQP. Counts are always up to date.
func (b *Broker) Management() http.Handler {
	endpoints := managementEndpoints()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.isStopped() {
			panic(http.ErrAbortHandler) // which closes the connection
		}
		r.Body = http.MaxBytesReader(w, r.Body, managementBody)
		status, body := b.manage(endpoints, &managementRequest{Request: r, broker: b, header: w.Header()})
		if status == http.StatusNoContent || body == nil {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // fails where the client has disconnected
	})
}

// managementBody is the limit of a request body: a message of 16 MiB in base64 fits.
const managementBody = 24 << 20

// managementRequest is a request to the management API.
type managementRequest struct {
	*http.Request
	broker *Broker
	header http.Header // of the response
	user   string
	vhost  *vhost   // of the path; nil where it names none
	names  []string // of the path, after the virtual host
}

// action answers a request.
type action func(*managementRequest) (status int, body any)

// endpoint is a path and its methods. Segments of the path are literals, {vhost}, or {}
// for another name.
type endpoint struct {
	path    string
	methods map[string]action
}

func (b *Broker) manage(endpoints []endpoint, r *managementRequest) (status int, body any) {
	if status, body := b.admitRequest(r); status != http.StatusOK {
		return status, body
	}
	segments, valid := splitPath(r.URL.EscapedPath())
	if !valid {
		return missing()
	}
	for _, e := range endpoints {
		if e.matches(r, segments) {
			return e.answer(r)
		}
	}
	return missing()
}

// admitRequest checks the login and the host. The check of the host keeps pages of
// other sites from using the browser against a broker on this machine (DNS rebinding).
func (b *Broker) admitRequest(r *managementRequest) (status int, body any) {
	var password string
	r.user, password, _ = r.BasicAuth()
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	why := b.cfg.checkLogin(r.user, []byte(password), net.TCPAddrFromAddrPort(from))
	switch {
	case why != "":
		r.header.Set("WWW-Authenticate", `Basic realm="Watership embedded broker"`)
		return http.StatusUnauthorized, map[string]string{"error": "not_authorized", "reason": why}
	case !ownHost(r.Request):
		return http.StatusForbidden, map[string]string{"error": "forbidden", "reason": "unknown host " + r.Host}
	}
	return http.StatusOK, nil
}

// ownHost reports whether the Host header is localhost or an IP address, for a request
// to a loopback address.
func ownHost(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if at == nil || !at.IP.IsLoopback() {
		return true
	}
	host := (&url.URL{Host: r.Host}).Hostname()
	return host == "localhost" || net.ParseIP(host) != nil
}

// splitPath returns the segments of a path. http.ServeMux would split a path at %2F,
// the virtual host "/".
func splitPath(escaped string) (segments []string, valid bool) {
	for part := range strings.SplitSeq(strings.TrimPrefix(escaped, "/"), "/") {
		segment, err := url.PathUnescape(part)
		if err != nil {
			return nil, false
		}
		segments = append(segments, segment)
	}
	return segments, true
}

// matches reports whether a request is for the endpoint, and sets the names of the
// path.
func (e endpoint) matches(r *managementRequest, segments []string) bool {
	pattern := strings.Split("api/"+e.path, "/")
	if len(pattern) != len(segments) {
		return false
	}
	r.vhost, r.names = nil, nil
	for i, part := range pattern {
		switch part {
		case "{vhost}":
			if r.vhost = r.broker.vhosts[segments[i]]; r.vhost == nil {
				return false
			}
		case "{}":
			if segments[i] == "" {
				return false
			}
			r.names = append(r.names, segments[i])
		case segments[i]:
		default:
			return false
		}
	}
	return true
}

func (e endpoint) answer(r *managementRequest) (status int, body any) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	act, there := e.methods[method]
	if !there {
		return http.StatusMethodNotAllowed, map[string]string{
			"error": "method_not_allowed", "reason": "the management API of the embedded broker does not support this method",
		}
	}
	return act(r)
}

func missing() (status int, body any) {
	return http.StatusNotFound, map[string]string{"error": "Object Not Found", "reason": "Not Found"}
}

func badRequest(reason string) (status int, body any) {
	return http.StatusBadRequest, map[string]string{"error": "bad_request", "reason": reason}
}

// refused returns the response to an AMQP exception.
func refused(e *exception) (status int, body any) {
	switch e.code {
	case notFound:
		return http.StatusNotFound, map[string]string{"error": "not_found", "reason": e.reason()}
	case accessRefused:
		return http.StatusUnauthorized, map[string]string{"error": "not_authorised", "reason": "Access refused."}
	}
	return badRequest(e.reason())
}

// read decodes the body, which must have the required fields.
func (r *managementRequest) read(into any, required ...string) error {
	whole, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(whole, &fields); err != nil {
		return errors.New("not_json")
	}
	var keys []string
	for _, key := range required {
		if _, there := fields[key]; !there {
			keys = append(keys, "{key_missing,"+key+"}")
		}
	}
	if len(keys) > 0 {
		return fmt.Errorf("[%s]", strings.Join(keys, ","))
	}
	decoder := json.NewDecoder(bytes.NewReader(whole))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// channel returns a channel without a client, to perform methods of AMQP.
func (r *managementRequest) channel() *channel {
	c := &connection{broker: r.broker, log: r.broker.log, vhost: r.vhost, user: r.user, out: newOutbox()}
	return newChannel(c, 0)
}
