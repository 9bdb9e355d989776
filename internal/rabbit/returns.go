package rabbit

import (
	"bytes"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// matchReturns assigns the received returns to messages. A return contains no delivery tag
// (AMQP 0-9-1 §1.8.3.10), so it is matched by content. If it matches several
// different messages, all of them become ambiguous, since returned messages are
// confirmed like routed ones.
func (w *window) matchReturns() {
	for {
		select {
		case r, ok := <-w.returns:
			if !ok {
				w.returns = nil
				return
			}
			w.attribute(&r)
		default:
			return
		}
	}
}

func (w *window) attribute(r *amqp.Return) {
	candidates := w.candidates(r)
	if !interchangeable(candidates) {
		for _, m := range candidates {
			m.ambiguous = true
		}
		return
	}
	candidates[0].returned = &UnroutableError{
		Exchange: r.Exchange, RoutingKey: r.RoutingKey, Code: int(r.ReplyCode), Reason: r.ReplyText,
	}
}

// candidates returns the messages that r may be: those with equal content; if
// none exist, since a proxy may change more than a broker does, those with its
// exchange and routing key; if none exists, all.
func (w *window) candidates(r *amqp.Return) []*Pending {
	if w.suspect != nil {
		return []*Pending{w.suspect}
	}
	var all, sameKey, same []*Pending
	for _, m := range w.sent.rest() {
		if m.removed || m.returned != nil || m.message.Optional {
			continue
		}
		all = append(all, m)
		if m.message.Exchange != r.Exchange || m.message.RoutingKey != r.RoutingKey {
			continue
		}
		sameKey = append(sameKey, m)
		if maybeReturned(&m.message.Publishing, r) {
			same = append(same, m)
		}
	}
	switch {
	case len(same) > 0:
		return same
	case len(sameKey) > 0:
		return sameKey
	}
	return all
}

// interchangeable reports whether messages is not empty and all of them are equal,
// so that it is irrelevant which of them was returned.
func interchangeable(messages []*Pending) bool {
	if len(messages) == 0 {
		return false
	}
	a := &messages[0].message
	for _, m := range messages[1:] {
		b := &m.message
		if a.Exchange != b.Exchange || a.RoutingKey != b.RoutingKey || !equal(&a.Publishing, &b.Publishing) {
			return false
		}
	}
	return true
}

func equal(a, b *amqp.Publishing) bool {
	return sameContent(a, b) && sameTime(a.Timestamp, b.Timestamp) && sameTable(a.Headers, b.Headers, nil)
}

// maybeReturned reports whether r may be the return of p: whether they are equal
// except for properties and headers that a broker changes.
func maybeReturned(p *amqp.Publishing, r *amqp.Return) bool {
	returned := &amqp.Publishing{
		ContentType: r.ContentType, ContentEncoding: r.ContentEncoding, DeliveryMode: r.DeliveryMode, Priority: r.Priority,
		CorrelationId: r.CorrelationId, ReplyTo: r.ReplyTo, Expiration: r.Expiration, MessageId: r.MessageId,
		Type: r.Type, UserId: r.UserId, AppId: r.AppId, Body: r.Body,
	}
	_, stamped := r.Headers[headerBrokerTime]
	return sameContent(p, returned) && (stamped || sameTime(p.Timestamp, r.Timestamp)) &&
		sameTable(p.Headers, r.Headers, brokerChanges)
}

// headerBrokerTime is the header that RabbitMQ sets together with the timestamp
// property (https://www.rabbitmq.com/docs/message-interceptors).
const headerBrokerTime = "timestamp_in_ms"

// brokerChanges reports whether RabbitMQ may add, change or remove a header.
func brokerChanges(name string) bool {
	return name == "BCC" || name == headerBrokerTime || strings.HasPrefix(name, "x-")
}

// sameContent compares everything except timestamp and headers.
func sameContent(a, b *amqp.Publishing) bool {
	return a.ContentType == b.ContentType && a.ContentEncoding == b.ContentEncoding &&
		a.DeliveryMode == b.DeliveryMode && a.Priority == b.Priority &&
		a.CorrelationId == b.CorrelationId && a.ReplyTo == b.ReplyTo && a.Expiration == b.Expiration &&
		a.MessageId == b.MessageId && a.Type == b.Type && a.UserId == b.UserId && a.AppId == b.AppId &&
		bytes.Equal(a.Body, b.Body)
}

// sameTime, sameTable and sameField compare values as encoded on the wire: times in
// whole seconds, int as 32 bits.
func sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && (a.IsZero() || a.Unix() == b.Unix())
}

// sameTable compares tables without the names for which ignore returns true; ignore
// may be nil.
func sameTable(a, b amqp.Table, ignore func(name string) bool) bool {
	count := func(t amqp.Table) (n int) {
		for key := range t {
			if ignore == nil || !ignore(key) {
				n++
			}
		}
		return n
	}
	if count(a) != count(b) {
		return false
	}
	for key, x := range a {
		if ignore != nil && ignore(key) {
			continue
		}
		if y, ok := b[key]; !ok || !sameField(x, y) {
			return false
		}
	}
	return true
}

func sameField(a, b any) bool {
	a, b = onTheWire(a), onTheWire(b)
	switch x := a.(type) {
	case []byte:
		y, ok := b.([]byte)
		return ok && bytes.Equal(x, y)
	case amqp.Table:
		y, ok := b.(amqp.Table)
		return ok && sameTable(x, y, nil)
	case []any:
		y, ok := b.([]any)
		return ok && sameArray(x, y)
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Unix() == y.Unix()
	}
	return a == b
}

func onTheWire(value any) any {
	if n, ok := value.(int); ok {
		return int32(n)
	}
	return value
}

func sameArray(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameField(a[i], b[i]) {
			return false
		}
	}
	return true
}
