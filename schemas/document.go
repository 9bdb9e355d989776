package schemas

import (
	"time"
	"unicode/utf8"
)

// DocumentVersion is the version of the document; documents of a newer one are
// refused by ParseDocument rather than guessed at.
const DocumentVersion = 1

// Stream says which of the two data streams a document belongs to.
type Stream string

// Failures are kept longer than traffic.
const (
	Traffic  Stream = "traffic"
	Failures Stream = "failures"
)

// Stream is where the documents of an action are kept.
func (a Action) Stream() Stream {
	if a == Published || a == Handled {
		return Traffic
	}
	return Failures
}

// Document is an event as the store keeps it.
type Document struct {
	ID     string
	Stream Stream
	Source []byte // JSON
}

// DocumentFormat says what of an event is made searchable. Everything is kept
// exactly, whatever is searchable. The zero value indexes the text of the body
// and its JSON, and no labels.
type DocumentFormat struct {
	Labels        []string // headers that are also labels.NAME keywords
	NumericLabels []string // headers that are also numeric_labels.NAME numbers
	NoBodyText    bool
	NoBodyJSON    bool
}

// Document writes an event as a document.
func (f DocumentFormat) Document(e Event) Document {
	return Document{ID: e.EventID, Stream: e.Action.Stream(), Source: f.Append(nil, e)}
}

// Append appends the source of an event's document.
func (f DocumentFormat) Append(dst []byte, e Event) []byte {
	o := beginObject(dst)
	o.time("@timestamp", storable(e.Time))
	appendEventFields(&o, e)
	o.nested("messaging", func(o *object) { appendMessaging(o, e) })
	o.nested("error", func(o *object) { appendError(o, e.Failure) })
	if trace := traceID(e.Envelope.Headers); trace != "" {
		o.nested("trace", func(o *object) { o.string("id", trace) })
	}
	o.nested("watership", func(o *object) { appendWatership(o, e) })
	o.nested("amqp", func(o *object) { appendExact(o, e.Envelope) })
	switch {
	case e.Action == Quarantined: // nothing that a store could refuse again
		o.nested("body", func(o *object) { appendRaw(o, e.Envelope.Body) })
	case e.BodyIn == BodyHere:
		f.appendHeaders(&o, e.Envelope.Headers)
		o.nested("body", func(o *object) { f.appendBody(o, e.Envelope.Body) })
	default:
		f.appendHeaders(&o, e.Envelope.Headers)
	}
	return o.end()
}

func appendEventFields(o *object, e Event) {
	o.nested("event", func(o *object) {
		o.string("id", e.EventID)
		o.string("action", string(e.Action))
		o.string("outcome", e.Action.Outcome())
		o.positive("duration", e.Duration.Nanoseconds())
		o.int("sequence", e.Sequence)
		o.time("ingested", e.Ingested)
	})
}

func appendMessaging(o *object, e Event) {
	o.string("system", "rabbitmq")
	o.nested("destination", func(o *object) { o.text("name", e.Envelope.Exchange) })
	o.nested("rabbitmq", func(o *object) {
		o.nested("destination", func(o *object) { o.text("routing_key", e.Envelope.RoutingKey) })
	})
	o.nested("message", func(o *object) {
		o.string("id", e.Envelope.Properties.MessageID)
		o.string("conversation_id", e.Envelope.Properties.CorrelationID)
		o.nested("body", func(o *object) { o.int("size", int64(e.BodySize)) })
	})
	o.string("type", e.Envelope.Properties.Type)
	o.string("content_type", e.Envelope.Properties.ContentType)
	o.string("app_id", e.Envelope.Properties.AppID)
	o.string("user_id", e.Envelope.Properties.UserID)
	o.string("reply_to", e.Envelope.Properties.ReplyTo)
}

func appendError(o *object, f Failure) {
	o.string("type", f.Type)
	o.string("message", f.Message)
	o.string("stack_trace", f.Stack)
}

func appendWatership(o *object, e Event) {
	o.int("version", DocumentVersion)
	o.string("source", e.Source)
	o.string("vhost", e.VHost)
	o.string("fingerprint", e.Fingerprint)
	o.string("message", e.Message)
	o.string("parent", e.Parent)
	o.string("queue", e.Queue)
	o.positive("attempt", int64(e.Attempt))
	o.positive("delay", e.Delay.Milliseconds())
	o.string("class", e.Failure.Class)
	o.string("error_group", ErrorGroup(e.Failure.Message))
	o.string("time_source", string(e.TimeSource))
	o.time("first_failed", storable(e.FirstFailed))
	if len(e.Attempts) > 0 {
		o.key("attempts")
		o.dst = appendAttempts(o.dst, e.Attempts)
	}
	o.string("body_in", string(e.BodyIn))
	o.string("quarantined_action", string(e.QuarantinedAction))
	o.nested("replay", func(o *object) {
		o.string("job", e.Replay)
		o.string("of", e.ReplayOf)
	})
}

func appendAttempts(dst []byte, attempts []FailedAttempt) []byte {
	dst = append(dst, '[')
	for i, attempt := range attempts {
		if i > 0 {
			dst = append(dst, ',')
		}
		o := beginObject(dst)
		o.time("time", storable(attempt.Time))
		o.string("class", attempt.Class)
		dst = o.end()
	}
	return append(dst, ']')
}

// storable leaves out a time that a date field would refuse.
func storable(t time.Time) time.Time {
	if t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// appendExact writes the envelope, but for its body, from which replay
// restores it to the last bit. Nothing else of the document is read for that.
func appendExact(o *object, e Envelope) {
	p := e.Properties
	o.text("exchange", e.Exchange)
	o.text("routing_key", e.RoutingKey)
	o.nested("properties", func(o *object) {
		o.text("content_type", p.ContentType)
		o.text("content_encoding", p.ContentEncoding)
		o.positive("delivery_mode", int64(p.DeliveryMode))
		o.positive("priority", int64(p.Priority))
		o.text("correlation_id", p.CorrelationID)
		o.text("reply_to", p.ReplyTo)
		o.text("expiration", p.Expiration)
		o.text("message_id", p.MessageID)
		if !p.Timestamp.IsZero() {
			o.int("timestamp", p.Timestamp.Unix())
		}
		o.text("type", p.Type)
		o.text("user_id", p.UserID)
		o.text("app_id", p.AppID)
	})
	if len(e.Headers) > 0 {
		o.key("headers")
		o.dst = AppendTable(o.dst, e.Headers)
	}
}

// text writes a string exactly, as name or, where it is not UTF-8, as name64.
func (o *object) text(name, value string) {
	switch {
	case value == "":
	case utf8.ValidString(value):
		o.string(name, value)
	default:
		o.key(name + "64")
		o.dst = appendBase64(o.dst, []byte(value))
	}
}
