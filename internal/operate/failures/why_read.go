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
func (w *whyReader) sample(ctx context.Context, query kql.And, most int, counts *Compared) ([]schemas.Event, error) {
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

// read reads no more than most events. With a limit in the selection, SQLite would search the newest events of the
// store for them.
func (w *whyReader) read(ctx context.Context, sel eventstore.Selection, most int) (events []schemas.Event, err error) {
	for e, err := range storeread.Readable(w.Events(ctx, sel)) {
		if err != nil {
			return nil, err
		}
		if events = append(events, e); len(events) == most {
			break
		}
	}
	return events, ctx.Err()
}

// messages returns the fields of events, and of their bodies if the caller may read them.
func (w *whyReader) messages(sides ...[]schemas.Event) (found [][]compare.Message, err error) {
	for _, events := range sides {
		messages := make([]compare.Message, len(events))
		for i, e := range events {
			if messages[i], err = w.message(e); err != nil {
				return nil, err
			}
		}
		found = append(found, messages)
	}
	return found, nil
}

// findBodies reads the bodies that are stored in other events of the same messages.
func (w *whyReader) findBodies(ctx context.Context, sides ...[]schemas.Event) error {
	if !w.withBodies {
		return nil
	}
	missing := bodies.NewMissing(w.System.Settings().Fingerprint)
	for _, events := range sides {
		for i := range events {
			if events[i].BodyIn != schemas.BodyHere {
				missing.Add(&events[i])
			}
		}
	}
	return missing.FindStored(ctx, w)
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
	m := compare.Message{Values: map[string][]string{}, WithoutBody: !w.withBodies || e.BodyIn != schemas.BodyHere}
	format := w.System.DocumentFormat()
	document, err := columns.Parse(schemas.DocumentFormat{NumericLabels: format.NumericLabels, MaxValues: format.MaxValues}.Append(nil, e))
	if err != nil {
		return m, err
	}
	for _, name := range messageFields() {
		if text := document.Text(name); text != "" {
			m.Values[name] = []string{text}
		}
	}
	for _, name := range []string{"headers", "numeric_labels", "body.json"} {
		if value, found := document.At(name); found && !(m.WithoutBody && ofBody(name)) {
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
