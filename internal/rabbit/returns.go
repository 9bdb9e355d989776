package rabbit

import (
	"bytes"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// match marks the messages that the broker has returned so far. A return names
// no message, so it is matched by content; which of several equal messages gets
// it does not matter.
func (w *window) match() {
	for {
		select {
		case r, ok := <-w.returns:
			if !ok {
				w.returns = nil
				return
			}
			if m := w.find(&r); m != nil {
				m.returned = &UnroutableError{
					Exchange: r.Exchange, RoutingKey: r.RoutingKey, Code: int(r.ReplyCode), Reason: r.ReplyText,
				}
			}
		default:
			return
		}
	}
}

// find is the first message that equals the return. The broker may have changed
// what it returns (it strips BCC, and may be told to add headers), so that the
// nearest is taken where none is equal: same exchange and key at least.
func (w *window) find(r *amqp.Return) *Pending {
	var nearest *Pending
	best := different
	for _, m := range w.sent[w.head:] {
		if m.settled || m.returned != nil || m.message.Optional {
			continue
		}
		likeness := compare(&m.message, r)
		if likeness == equal {
			return m
		}
		if likeness > best {
			nearest, best = m, likeness
		}
	}
	return nearest
}

// How much a return looks like a message.
const (
	different = iota
	sameKey
	sameBody
	sameIDs
	equal
)

func compare(m *Message, r *amqp.Return) int {
	p := &m.Publishing
	switch {
	case m.Exchange != r.Exchange || m.RoutingKey != r.RoutingKey:
		return different
	case !bytes.Equal(p.Body, r.Body):
		return sameKey
	case p.MessageId != r.MessageId || p.CorrelationId != r.CorrelationId || p.Type != r.Type || p.AppId != r.AppId:
		return sameBody
	case p.ContentType != r.ContentType || p.ContentEncoding != r.ContentEncoding ||
		p.DeliveryMode != r.DeliveryMode || p.Priority != r.Priority || p.ReplyTo != r.ReplyTo ||
		p.Expiration != r.Expiration || p.UserId != r.UserId || !sameTime(p.Timestamp, r.Timestamp) ||
		!sameTable(p.Headers, r.Headers):
		return sameIDs
	}
	return equal
}

// sameTime, sameTable and sameField compare values as they are on the wire:
// times in whole seconds, int as 32 bits.
func sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && (a.IsZero() || a.Unix() == b.Unix())
}

func sameTable(a, b amqp.Table) bool {
	if len(a) != len(b) {
		return false
	}
	for key, x := range a {
		if y, ok := b[key]; !ok || !sameField(x, y) {
			return false
		}
	}
	return true
}

func sameField(a, b any) bool {
	switch x := a.(type) {
	case []byte:
		y, ok := b.([]byte)
		return ok && bytes.Equal(x, y)
	case amqp.Table:
		y, ok := b.(amqp.Table)
		return ok && sameTable(x, y)
	case []any:
		y, ok := b.([]any)
		return ok && sameArray(x, y)
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Unix() == y.Unix()
	case int:
		return b == int32(x)
	}
	return a == b
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
