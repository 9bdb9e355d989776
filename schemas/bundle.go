package schemas

import (
	"encoding/binary"
	"iter"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/jsonscan"
)

// headerBundled says that the body is a bundle. Its value is the version of
// that form.
const (
	headerBundled  = "watership-bundled"
	bundledVersion = 1
)

// Bundle is several events of one action on their way as one message, which
// costs the broker as much as any of them would alone. The zero value is empty.
//
// Of each event its body has the length of what follows as four bytes
// (big-endian), properties and headers as JSON of the document's `amqp` object,
// and in the same way as it is the length and the bytes of the event's own body.
type Bundle struct {
	body []byte
	len  int
}

// bundleRoom is how many bytes there is room for to begin with, and added where
// less than a quarter of that is left: append alone would copy an event ten times.
const bundleRoom = 32 << 10

// Add takes an event as Wrap or WrapWithoutBody made it.
func (b *Bundle) Add(event amqp.Publishing) {
	e := FromDelivery(amqp.Delivery{
		Headers: event.Headers, ContentType: event.ContentType, ContentEncoding: event.ContentEncoding,
		DeliveryMode: event.DeliveryMode, CorrelationId: event.CorrelationId, ReplyTo: event.ReplyTo,
		MessageId: event.MessageId, Timestamp: event.Timestamp, Type: event.Type, AppId: event.AppId,
	})
	if cap(b.body)-len(b.body) < bundleRoom/4 {
		b.body = slices.Grow(b.body, len(b.body)+bundleRoom)
	}
	begin := len(b.body)
	o := beginObject(append(b.body, 0, 0, 0, 0))
	var room [keysRoom]string
	appendExact(&o, e, anyOrder(room[:0], e.Headers))
	b.body = o.end()
	binary.BigEndian.PutUint32(b.body[begin:], uint32(len(b.body)-begin-4))
	b.body = append(binary.BigEndian.AppendUint32(b.body, uint32(len(event.Body))), event.Body...)
	b.len++
}

// Len is how many events there are.
func (b *Bundle) Len() int { return b.len }

// Size is how many bytes they take.
func (b *Bundle) Size() int { return len(b.body) }

// Publishing is the message of all events that were added. It holds what the
// bundle holds: nothing more is to be added then.
func (b *Bundle) Publishing() amqp.Publishing {
	headers := ours{headerVersion: int64(WireVersion), headerBundled: int64(bundledVersion)}
	return amqp.Publishing{Headers: amqp.Table(headers), DeliveryMode: amqp.Persistent, Body: b.body}
}

// Unbundle gives the events of a message in the log, each as if it had come
// alone: those of a bundle, or the message itself if it is none that this
// version can read to its end.
func (dec Decoder) Unbundle(d amqp.Delivery) iter.Seq[amqp.Delivery] {
	return func(yield func(amqp.Delivery) bool) {
		events, bundled := dec.unbundled(d)
		if !bundled {
			yield(d)
			return
		}
		for _, event := range events {
			if !yield(event) {
				return
			}
		}
	}
}

func (dec Decoder) unbundled(d amqp.Delivery) (events []amqp.Delivery, ok bool) {
	headers := ours(d.Headers)
	if headers.int(headerBundled) != bundledVersion || headers.int(headerVersion) > WireVersion || d.Exchange != dec.Topology.Events() {
		return nil, false
	}
	for rest := d.Body; len(rest) > 0; {
		exact, behind, whole := cutSized(rest)
		if !whole {
			return nil, false
		}
		body, behind, whole := cutSized(behind)
		r := jsonscan.New(exact)
		e := readExact(r)
		if r.End() != nil || !whole {
			return nil, false
		}
		e.Body = body
		events = append(events, e.deliveredWith(d))
		rest = behind
	}
	return events, len(events) > 0
}

// cutSized cuts off what a length of four bytes says.
func cutSized(data []byte) (cut, rest []byte, whole bool) {
	if len(data) < 4 {
		return nil, nil, false
	}
	size, rest := binary.BigEndian.Uint32(data), data[4:]
	if uint64(size) > uint64(len(rest)) {
		return nil, nil, false
	}
	return rest[:size:size], rest[size:], true
}

// deliveredWith is a delivery of the envelope in place of the one it was in.
func (e Envelope) deliveredWith(d amqp.Delivery) amqp.Delivery {
	p := e.Properties
	d.Headers, d.Body = e.Headers, e.Body
	d.ContentType, d.ContentEncoding, d.DeliveryMode = p.ContentType, p.ContentEncoding, p.DeliveryMode
	d.CorrelationId, d.ReplyTo, d.MessageId = p.CorrelationID, p.ReplyTo, p.MessageID
	d.Timestamp, d.Type, d.AppId = p.Timestamp, p.Type, p.AppID
	return d
}
