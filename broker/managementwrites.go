package broker

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// declaredObject is the body of PUT for an exchange or a queue.
type declaredObject struct {
	Type       string         `json:"type"`
	Durable    looseBool      `json:"durable"`
	AutoDelete looseBool      `json:"auto_delete"`
	Internal   looseBool      `json:"internal"`
	Arguments  map[string]any `json:"arguments"`
}

// looseBool is a boolean that may be a string, as rabbitmqadmin sends it.
type looseBool bool

func (l *looseBool) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseBool(strings.Trim(string(text), `"`))
	if err != nil {
		return fmt.Errorf("not_boolean: %s", text)
	}
	*l = looseBool(value)
	return nil
}

func putExchange(r *managementRequest) (status int, body any) {
	var d declaredObject
	if err := r.read(&d); err != nil {
		return badRequest(err.Error())
	}
	x := newExchange(r.names[0], cmp.Or(d.Type, "direct"), tableOf(d.Arguments))
	x.durable, x.autoDelete, x.internal = bool(d.Durable), bool(d.AutoDelete), bool(d.Internal)
	v := r.vhost
	v.lock()
	defer v.unlock()
	_, there := v.exchanges[x.name]
	if err := v.declareExchange(x); err != nil {
		return refused(err)
	}
	return createdOr(there), nil
}

func createdOr(there bool) (status int) {
	if there {
		return http.StatusNoContent
	}
	return http.StatusCreated
}

func deleteExchange(r *managementRequest) (status int, body any) {
	v := r.vhost
	v.lock()
	defer v.unlock()
	if _, there := v.exchanges[r.names[0]]; !there {
		return missing()
	}
	if err := v.deleteExchangeIf(r.names[0], r.URL.Query().Get("if-unused") == "true"); err != nil {
		return refused(err)
	}
	return http.StatusNoContent, nil
}

func putQueue(r *managementRequest) (status int, body any) {
	var d declaredObject
	if err := r.read(&d); err != nil {
		return badRequest(err.Error())
	}
	v := r.vhost
	v.lock()
	defer v.unlock()
	_, there := v.queues[r.names[0]]
	_, err := r.channel().declared(declaration{
		name: r.names[0], durable: bool(d.Durable), autoDelete: bool(d.AutoDelete), arguments: tableOf(d.Arguments),
	})
	if err != nil {
		return refused(err)
	}
	return createdOr(there), nil
}

func deleteQueue(r *managementRequest) (status int, body any) {
	query := r.URL.Query()
	return r.withQueue(func(ch *channel, q *queue) *exception {
		_, err := ch.deleteIf(q, query.Get("if-unused") == "true", query.Get("if-empty") == "true")
		return err
	})
}

func purgeQueue(r *managementRequest) (status int, body any) {
	return r.withQueue(func(ch *channel, q *queue) *exception {
		if err := ch.mayUse(q); err != nil {
			return err
		}
		q.purge()
		return nil
	})
}

func (r *managementRequest) withQueue(do func(*channel, *queue) *exception) (status int, body any) {
	v := r.vhost
	v.lock()
	defer v.unlock()
	q, there := v.queues[r.names[0]]
	if !there {
		return missing()
	}
	if err := do(r.channel(), q); err != nil {
		return refused(err)
	}
	return http.StatusNoContent, nil
}

func postBinding(r *managementRequest) (status int, body any) {
	var d struct {
		RoutingKey string         `json:"routing_key"`
		Arguments  map[string]any `json:"arguments"`
	}
	if err := r.read(&d); err != nil {
		return badRequest(err.Error())
	}
	v := r.vhost
	v.lock()
	defer v.unlock()
	b, err := r.bindingEnds()
	if err != nil {
		return refused(err)
	}
	b.key, b.args = d.RoutingKey, tableOf(d.Arguments)
	if err := v.bind(b); err != nil {
		return refused(err)
	}
	r.header.Set("Location", url.PathEscape(r.names[2])+"/"+strings.ReplaceAll(url.QueryEscape(b.propertiesKey()), "+", "%20"))
	return http.StatusCreated, nil
}

// bindingEnds returns a binding with the source and the destination that the path
// names.
func (r *managementRequest) bindingEnds() (*binding, *exception) {
	source, kind, destination := exchangeName(r.names[0]), r.names[1], r.names[2]
	switch kind {
	case "q":
		return r.channel().queueBinding(destination, source)
	case "e":
		return r.vhost.exchangeBinding(destination, source)
	}
	return nil, newException(notFound, "no destination of type '%s': expected q or e", kind)
}
