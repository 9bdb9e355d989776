package failures

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history/bodies"
	"github.com/watershipmq/watership/internal/operate/failures/compare"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// during matches the events of a period, whose begin and end belong to it.
func during(from, to time.Time) kql.And {
	bound := func(op kql.Op, at time.Time) kql.Node {
		text := at.UTC().Format(time.RFC3339Nano)
		return kql.Range{Field: kql.Pattern{"@timestamp"}, Op: op, Value: kql.Value{Pattern: kql.Pattern{text}, Quoted: true}}
	}
	return kql.And{bound(kql.GreaterOrEqual, from), bound(kql.LessOrEqual, to)}
}

// within limits a selection to the events that the caller may see.
func (w *whyReader) within(sel eventstore.Selection) eventstore.Selection {
	sel.Query = kql.And{sel.Query, w.visible}
	return sel
}

// Events implements bodies.Store. The caller may see the events.
func (w *whyReader) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return w.store.Events(ctx, w.within(sel))
}

// sample reads about most events of a query, and counts all. Fingerprints are hashes, so that the events
// below a bound are a sample without regard to anything else, and the same one each time.
func (w *whyReader) sample(ctx context.Context, query kql.And, most int, counts *Compared) ([]sampled, error) {
	n, err := w.store.Count(ctx, w.within(eventstore.Selection{Query: query}))
	if err != nil || n == 0 {
		return nil, err
	}
	counts.Count = int(n)
	sel := eventstore.Selection{Query: query, Order: eventstore.BySequence, WithoutBody: !w.withBodies}
	if counts.Count > most {
		sel.Query = kql.And{query, ofFraction(float64(most) / float64(n))}
	}
	events, err := w.read(ctx, sel, 2*most)
	if err == nil && counts.Count > most && len(events) < most/2 { // many messages are equal, with one fingerprint
		sel.Query = query
		events, err = w.read(ctx, sel, most)
	}
	counts.Read = len(events)
	return events, err
}

// ofFraction matches the messages of a fraction of all fingerprints.
func ofFraction(fraction float64) kql.Node {
	end := fmt.Sprintf("v1:%08x", uint32(fraction*math.MaxUint32))
	return kql.Range{Field: kql.Pattern{"watership.fingerprint"}, Op: kql.Less, Value: kql.Value{Pattern: kql.Pattern{end}, Quoted: true}}
}

// sampled is a message that was read. Its event has neither headers nor a body once its fields are known.
type sampled struct {
	compare.Message
	event schemas.Event
}

// The bounds of bodies. Bodies of longer messages count as unknown.
const (
	longestBody  = 256 << 10 // bytes
	bodiesAtOnce = 16 << 20  // bytes, of bodies in memory
)

// read reads no more than most messages. With a limit in the selection, SQLite would search the newest events of the
// store for them.
func (w *whyReader) read(ctx context.Context, sel eventstore.Selection, most int) (messages []sampled, err error) {
	for e, err := range storeread.Readable(w.Events(ctx, sel)) {
		if err != nil {
			return nil, err
		}
		m := sampled{event: e}
		if !w.isElsewhere(e) {
			if err := w.setFields(&m); err != nil {
				return nil, err
			}
		}
		if messages = append(messages, m); len(messages) == most {
			break
		}
	}
	return messages, ctx.Err()
}

// isElsewhere reports whether the body of an event is compared, and in another event.
func (w *whyReader) isElsewhere(e schemas.Event) bool {
	return w.withBodies && e.BodyIn != schemas.BodyHere && e.BodySize <= longestBody
}

// findBodies reads the bodies that are stored in other events of the same messages, and sets the fields of these.
func (w *whyReader) findBodies(ctx context.Context, sides ...[]sampled) error {
	var some []*sampled
	size := 0
	for _, side := range sides {
		for i := range side {
			m := &side[i]
			if !w.isElsewhere(m.event) {
				continue
			}
			if some, size = append(some, m), size+m.event.BodySize; size < bodiesAtOnce {
				continue
			}
			if err := w.findSome(ctx, some); err != nil {
				return err
			}
			some, size = some[:0], 0
		}
	}
	return w.findSome(ctx, some)
}

func (w *whyReader) findSome(ctx context.Context, messages []*sampled) error {
	missing := bodies.NewMissing(w.System.Settings().Fingerprint)
	for _, m := range messages {
		missing.Add(ctx, &m.event)
	}
	if err := missing.FindStored(ctx, w); err != nil {
		return err
	}
	for _, m := range messages {
		if err := w.setFields(m); err != nil {
			return err
		}
	}
	return nil
}

func (w *whyReader) setFields(m *sampled) (err error) {
	m.Message, err = w.message(m.event)
	m.event.Envelope = schemas.Envelope{}
	return err
}

// fieldsOf returns the fields of messages.
func fieldsOf(messages []sampled) []compare.Message {
	fields := make([]compare.Message, len(messages))
	for i, m := range messages {
		fields[i] = m.Message
	}
	return fields
}

// bodies reports whether the bodies of handled messages were compared.
func (w *whyReader) bodies(handled ...[]compare.Message) Bodies {
	isKnown := func(m compare.Message) bool { return !m.WithoutBody }
	switch {
	case !w.withBodies:
		return BodiesHidden
	case slices.ContainsFunc(slices.Concat(handled...), isKnown):
		return BodiesCompared
	}
	return BodiesUnknown
}

// message returns the fields of an event that describe its message, as they are searched.
func (w *whyReader) message(e schemas.Event) (compare.Message, error) {
	m := compare.Message{Values: map[string][]string{}, WithoutBody: !w.withBodies || e.BodyIn != schemas.BodyHere || e.BodySize > longestBody}
	format := w.System.DocumentFormat()
	format.Labels, format.NoBodyText, format.NoBodyJSON = nil, true, m.WithoutBody
	document, err := columns.Parse(format.Append(nil, e))
	if err != nil {
		return m, err
	}
	for _, name := range messageFields() {
		if text := document.Text(name); text != "" {
			m.Values[name] = []string{text}
		}
	}
	for _, name := range []string{"headers", "numeric_labels", "body.json"} {
		if value, found := document.At(name); found {
			addValues(m.Values, name, value)
		}
	}
	return m, nil
}

// messageFields are the fields with the origin and the properties of a message, but for its ids.
func messageFields() []string {
	return []string{
		"messaging.destination.name", "messaging.rabbitmq.destination.routing_key", "messaging.type", "messaging.content_type",
		"messaging.app_id", "messaging.user_id", "messaging.reply_to", "messaging.message.body.size",
	}
}

// longestValue is the length of the longest value that is compared, in bytes.
const longestValue = 200

// addValues adds the values below a name, as a flattened field has them: an element of a list has the
// name of the list.
func addValues(to map[string][]string, name string, value any) {
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, below := range v {
			if name != "headers" || !isOfFailure(key) {
				addValues(to, name+"."+key, below)
			}
		}
	case []any:
		for _, one := range v {
			addValues(to, name, one)
		}
	default:
		text := fmt.Sprint(v)
		if len(text) > longestValue {
			to[name] = append([]string{}, to[name]...) // it is there, without a value to compare
			return
		}
		to[name] = append(to[name], text)
	}
}

func ofBody(field string) bool { return strings.HasPrefix(field, "body.") }

// isOfFailure reports whether a header is one that a message gets because it fails: from RabbitMQ, from
// Watership, or from a framework of its consumer.
func isOfFailure(header string) bool {
	name := strings.ToLower(header)
	return slices.ContainsFunc([]string{
		"watership-", "x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count", "x-opt-",
		"x-exception", "x-original-", "x-retry", "x-retries", "mt-fault-", "mt-redelivery-", "nservicebus.exceptioninfo.", "nservicebus.failedq",
		"nservicebus.timeoffailure", "nservicebus.retries", "nservicebus.flretries", "nservicebus.delayedretries", "exception-", "retries", "poisoned_",
	}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// searchable returns the first of some conditions that a query can find.
func (w *whyReader) searchable(conditions []compare.Condition) (compare.Condition, bool) {
	at := slices.IndexFunc(conditions, func(c compare.Condition) bool {
		if ofBody(c.Field) && w.System.DocumentFormat().NoBodyJSON {
			return false
		}
		_, err := w.System.ParseQuery(node(c).String())
		return err == nil
	})
	if at < 0 {
		return compare.Condition{}, false
	}
	return conditions[at], true
}

// node returns the query of a condition.
func node(c compare.Condition) kql.Node {
	switch name := (kql.Pattern{c.Field}); c.Test {
	case compare.Exists:
		return kql.Exists{Field: name}
	case compare.Missing:
		return kql.Not{Node: kql.Exists{Field: name}}
	case compare.AtLeast:
		return kql.Range{Field: name, Op: kql.GreaterOrEqual, Value: kql.Value{Pattern: kql.Pattern{c.Value}, Quoted: true}}
	case compare.AtMost:
		return kql.Range{Field: name, Op: kql.LessOrEqual, Value: kql.Value{Pattern: kql.Pattern{c.Value}, Quoted: true}}
	}
	return kql.FieldIs(c.Field, c.Value)
}
