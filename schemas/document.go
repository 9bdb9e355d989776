package schemas

import (
	"time"
)

// DocumentVersion is the version of the document format. ParseDocument refuses
// documents with a newer version.
const DocumentVersion = 1

// Stream names one of the two data streams.
type Stream string

// The two data streams. Failures are kept longer than traffic.
const (
	Traffic  Stream = "traffic"
	Failures Stream = "failures"
)

// Stream returns the data stream for events of the action.
func (a Action) Stream() Stream {
	if a == Published || a == Handled {
		return Traffic
	}
	return Failures
}

// Document is an event in the form that the store keeps.
type Document struct {
	ID     string
	Stream Stream
	Source []byte // JSON
}

// DocumentFormat selects the parts of an event that are searchable. Every event is
// stored exactly in any case. The zero value indexes the text of the body and its
// JSON, and no labels.
type DocumentFormat struct {
	Labels        []string // headers that are also indexed as labels.NAME keywords
	NumericLabels []string // headers that are also indexed as numeric_labels.NAME numbers
	NoBodyText    bool
	NoBodyJSON    bool

	// MaxValues is the number of values up to which the JSON of a body is
	// searchable by field: indexing takes a store about 30 µs for each. Zero:
	// DefaultMaxValues.
	MaxValues int
}

// DefaultMaxValues is enough for an order of some hundred lines.
const DefaultMaxValues = 5000

func (f DocumentFormat) maxValues() int {
	if f.MaxValues == 0 {
		return DefaultMaxValues
	}
	return f.MaxValues
}

// Document converts an event to a document.
func (f DocumentFormat) Document(e Event) Document {
	return Document{ID: e.EventID, Stream: e.Action.Stream(), Source: f.Append(nil, e)}
}

// Append appends the source of an event's document.
func (f DocumentFormat) Append(dst []byte, e Event) []byte {
	var room [keysRoom]string
	headers := sortedKeys(room[:0], e.Envelope.Headers)
	o := beginObject(dst)
	o.time("@timestamp", storable(e.Time))
	appendEventFields(&o, &e)
	appendMessaging(&o, &e)
	appendError(&o, e.Failure)
	appendTrace(&o, &e)
	appendWatership(&o, &e)
	exact := o.open("amqp")
	appendExact(&o, e.Envelope, headers)
	o.close(exact)
	f.appendContent(&o, &e, headers)
	return o.end()
}

// appendKept appends only the fields of an event that ParseDocument reads.
func appendKept(dst []byte, e Event) []byte {
	var room [keysRoom]string
	o := beginObject(dst)
	o.time("@timestamp", storable(e.Time))
	appendEventFields(&o, &e)
	messaging, message := o.open("messaging"), o.open("message")
	appendBodySize(&o, &e)
	o.close(message)
	o.close(messaging)
	appendError(&o, e.Failure)
	appendWatership(&o, &e)
	exact := o.open("amqp")
	appendExact(&o, e.Envelope, sortedKeys(room[:0], e.Envelope.Headers))
	o.close(exact)
	body := o.open("body")
	if e.BodyIn == BodyHere {
		DocumentFormat{NoBodyJSON: true}.appendBody(&o, e.Envelope.Body)
	}
	o.close(body)
	return o.end()
}

// appendContent appends the searchable fields of headers and body. A document that
// replaces a refused one gets none, so that the store cannot refuse it again.
func (f DocumentFormat) appendContent(o *object, e *Event, headers []string) {
	if e.Action != Quarantined {
		f.appendHeaders(o, e.Envelope.Headers, headers)
	}
	if e.BodyIn != BodyHere {
		return
	}
	body := o.open("body")
	if e.Action == Quarantined {
		appendRaw(o, e.Envelope.Body)
	} else {
		f.appendBody(o, e.Envelope.Body)
	}
	o.close(body)
}

func appendEventFields(o *object, e *Event) {
	event := o.open("event")
	o.string("id", e.EventID)
	o.string("action", string(e.Action))
	o.string("outcome", e.Action.Outcome())
	o.positive("duration", e.Duration.Nanoseconds())
	o.int("sequence", e.Sequence)
	o.time("ingested", e.Ingested)
	o.close(event)
}

func appendMessaging(o *object, e *Event) {
	messaging := o.open("messaging")
	o.string("system", "rabbitmq")
	destination := o.open("destination")
	o.text("name", e.Envelope.Exchange)
	o.close(destination)
	rabbitmq := o.open("rabbitmq")
	destination = o.open("destination")
	o.text("routing_key", e.Envelope.RoutingKey)
	o.close(destination)
	o.close(rabbitmq)
	message := o.open("message")
	o.string("id", e.Envelope.Properties.MessageID)
	o.string("conversation_id", e.Envelope.Properties.CorrelationID)
	appendBodySize(o, e)
	o.close(message)
	o.string("type", e.Envelope.Properties.Type)
	o.string("content_type", e.Envelope.Properties.ContentType)
	o.string("app_id", e.Envelope.Properties.AppID)
	o.string("user_id", e.Envelope.Properties.UserID)
	o.string("reply_to", e.Envelope.Properties.ReplyTo)
	o.close(messaging)
}

func appendBodySize(o *object, e *Event) {
	body := o.open("body")
	o.int("size", int64(e.BodySize))
	o.close(body)
}

func appendError(o *object, f Failure) {
	failure := o.open("error")
	o.string("type", f.Type)
	o.string("message", f.Message)
	o.string("stack_trace", f.Stack)
	o.close(failure)
}

func appendTrace(o *object, e *Event) {
	trace := o.open("trace")
	o.string("id", traceID(e.Envelope.Headers))
	o.close(trace)
}

func appendWatership(o *object, e *Event) {
	watership := o.open("watership")
	o.int("version", DocumentVersion)
	o.string("source", e.Source)
	o.string("vhost", e.VHost)
	o.string("fingerprint", e.Fingerprint)
	o.string("message", e.Message)
	o.string("parent", e.Parent)
	o.string("queue", e.Queue)
	o.positive("attempt", int64(e.Attempt))
	o.positive("delay", e.Delay.Milliseconds())
	o.positive("waits", int64(e.Waits))
	o.time("waits_since", storable(e.WaitsSince))
	o.string("class", e.Failure.Class)
	o.string("error_group", e.errorGroup())
	o.string("time_source", string(e.TimeSource))
	o.time("first_failed", storable(e.FirstFailed))
	if len(e.Attempts) > 0 {
		o.key("attempts")
		o.dst = appendAttempts(o.dst, e.Attempts)
	}
	o.string("body_in", string(e.BodyIn))
	o.string("quarantined_action", string(e.QuarantinedAction))
	replay := o.open("replay")
	o.string("job", e.Replay)
	o.string("of", e.ReplayOf)
	o.close(replay)
	o.close(watership)
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

// storable returns the zero time for a time that a date field would refuse.
func storable(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return time.Time{}
	}
	return t
}
