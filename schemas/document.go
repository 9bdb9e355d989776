package schemas

import (
	"context"
	"time"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// DocumentVersion is the version of the document format. ParseDocument refuses
// documents with a newer version.
//
// Version 2 has each header and property once where their types allow it. Version 1 had
// all of them in amqp as well, as the lines of bundles still do.
//
// A document of a redacted message has version 3, in the same form: an earlier Watership, which
// would send the redacted message, refuses it.
const (
	DocumentVersion = 2
	formerVersion   = 1
	redactedVersion = 3
)

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
	// searchable by field: indexing takes a store about 30 µs for each. Zero: 5,000.
	MaxValues int

	// StreamOf chooses the data stream of an event, by how long it is kept. nil: the one of its
	// action.
	StreamOf func(Event) Stream

	// Redact returns an event without what must not be stored, and sets Redacted of those that it
	// changes. An event may have been redacted before, by other rules. nil: nothing is redacted.
	Redact func(Event) Event

	// Prepare returns Redact for some events, after it has got the keys that they need with one request
	// for all. nil: Redact needs none.
	Prepare func(ctx context.Context, events []Event) (redact func(Event) Event, err error)
}

// For returns the format for documents of some events, and asks servers for the keys that these need.
func (f DocumentFormat) For(ctx context.Context, events []Event) (DocumentFormat, error) {
	if f.Prepare == nil || len(events) == 0 {
		return f, nil
	}
	redact, err := f.Prepare(ctx, events)
	f.Redact = redact
	return f, err
}

// defaultMaxValues is enough for an order of some hundred lines.
const defaultMaxValues = 5000

func (f DocumentFormat) maxValues() int {
	if f.MaxValues == 0 {
		return defaultMaxValues
	}
	return f.MaxValues
}

// Document converts an event to a document.
func (f DocumentFormat) Document(e Event) Document {
	return Document{ID: e.EventID, Stream: f.Stream(e), Source: f.Append(nil, e)}
}

// Stream returns the data stream of an event.
func (f DocumentFormat) Stream(e Event) Stream {
	if f.StreamOf == nil {
		return e.Action.Stream()
	}
	return f.StreamOf(e)
}

// Append appends the source of an event's document.
func (f DocumentFormat) Append(dst []byte, e Event) []byte {
	if f.Redact != nil {
		e = f.Redact(e)
	}
	var room [tablejson.Room]tablejson.Field
	headers := tablejson.Sorted(room[:], e.Envelope.Headers, nil)
	o := jsonappend.Begin(dst)
	o.Time("@timestamp", storable(e.Time))
	appendEventFields(&o, &e)
	appendAudit(&o, &e)
	appendMessaging(&o, &e)
	appendError(&o, e.Failure)
	o.Member("trace", "id", e.TraceID())
	appendWatership(&o, &e, e.version())
	exactTexts := e.Action != Quarantined && f.appendHeaders(&o, e.Envelope.Headers, headers)
	exact := o.Open("amqp")
	appendRemainder(&o, &e, headers, exactTexts)
	o.Close(exact)
	f.appendContent(&o, &e)
	return o.End()
}

// AppendExact appends a document with only the fields of an event that ParseDocument reads, in the
// form of version 1, which older versions of Watership read as well.
func (e Event) AppendExact(dst []byte) []byte {
	o := jsonappend.Begin(dst)
	o.Time("@timestamp", storable(e.Time))
	appendEventFields(&o, &e)
	appendAudit(&o, &e)
	messaging, message := o.Open("messaging"), o.Open("message")
	appendBodySize(&o, &e)
	o.Close(message)
	o.Close(messaging)
	appendError(&o, e.Failure)
	appendWatership(&o, &e, formerVersion)
	exact := o.Open("amqp")
	appendExact(&o, e.Envelope)
	o.Close(exact)
	body := o.Open("body")
	if e.BodyIn == BodyHere {
		appendExactBody(&o, "text", e.Envelope.Body)
	}
	o.Close(body)
	return o.End()
}

// appendContent appends the body. A document that replaces a refused one gets none of its
// searchable fields, nor fields of headers, so that the store cannot refuse it again.
func (f DocumentFormat) appendContent(o *jsonappend.Object, e *Event) {
	body := o.Open("body")
	switch {
	case e.BodyIn != BodyHere:
	case e.Action == Quarantined:
		appendRaw(o, e.Envelope.Body)
	default:
		f.appendBody(o, e.Envelope)
	}
	if len(e.Sealed) > 0 && e.BodyIn != BodyInUnstorable { // whose original is in the queue, too
		o.Key("sealed")
		o.Dst = jsonappend.Base64(o.Dst, e.Sealed)
	}
	o.Close(body)
}

// version returns the version of the event's document.
func (e *Event) version() int64 {
	if e.Envelope.Redacted {
		return redactedVersion
	}
	return DocumentVersion
}

func appendEventFields(o *jsonappend.Object, e *Event) {
	event := o.Open("event")
	o.String("id", e.EventID)
	o.String("action", string(e.searchedAction()))
	o.String("outcome", e.outcome())
	o.String("reason", e.Audit.Reason)
	o.Positive("duration", e.Duration.Nanoseconds())
	o.Int("sequence", e.Sequence)
	o.Time("ingested", e.Ingested)
	o.Close(event)
}

// searchedAction returns the value of event.action. A quarantined event is found by the
// action of the event that it replaces, in Kibana as well, and has
// watership.quarantined_action besides. A message in the log that is no event is not found
// by the action that it claims.
func (e *Event) searchedAction() Action {
	if e.Action == Quarantined {
		if refused, ok := e.Refused(); ok {
			return refused.Action
		}
	}
	return e.Action
}

func appendMessaging(o *jsonappend.Object, e *Event) {
	messaging := o.Open("messaging")
	o.String("system", "rabbitmq")
	destination := o.Open("destination")
	o.Exact("name", e.Envelope.Exchange)
	o.Close(destination)
	rabbitmq := o.Open("rabbitmq")
	destination = o.Open("destination")
	o.Exact("routing_key", e.Envelope.RoutingKey)
	o.Close(destination)
	o.Close(rabbitmq)
	message := o.Open("message")
	o.String("id", e.Envelope.Properties.MessageID)
	o.String("conversation_id", e.Envelope.Properties.CorrelationID)
	appendBodySize(o, e)
	o.Close(message)
	o.String("type", e.Envelope.Properties.Type)
	o.String("content_type", e.Envelope.Properties.ContentType)
	o.String("app_id", e.Envelope.Properties.AppID)
	o.String("user_id", e.Envelope.Properties.UserID)
	o.String("reply_to", e.Envelope.Properties.ReplyTo)
	o.Close(messaging)
}

func appendBodySize(o *jsonappend.Object, e *Event) {
	body := o.Open("body")
	o.Int("size", int64(e.BodySize))
	o.Close(body)
}

func appendError(o *jsonappend.Object, f Failure) {
	failure := o.Open("error")
	appendFailure(o, f)
	o.Close(failure)
}

func appendFailure(o *jsonappend.Object, f Failure) {
	o.String("type", f.Type)
	o.String("message", f.Message)
	o.String("stack_trace", f.Stack)
}

func appendWatership(o *jsonappend.Object, e *Event, version int64) {
	watership := o.Open("watership")
	o.Int("version", version)
	o.String("source", e.Source)
	o.String("vhost", e.VHost)
	o.String("fingerprint", e.Fingerprint)
	o.String("message", e.Message)
	o.String("parent", e.Parent)
	o.String("queue", e.Queue)
	o.String("receiver", e.Receiver)
	o.String("answer", e.Answer) // not in the mapping: who reads it has the event
	o.String("trace", e.Trace)   // not in the mapping: trace.id is
	o.Positive("attempt", int64(e.Attempt))
	o.Positive("delay", e.Delay.Milliseconds())
	o.Positive("queue_time", e.QueueTime.Nanoseconds())
	o.Positive("total_time", e.TotalTime.Nanoseconds())
	o.Positive("waits", int64(e.Waits))
	o.Time("waits_since", storable(e.WaitsSince))
	o.String("class", e.Failure.Class)
	o.String("rule", e.Failure.Rule)
	o.String("error_group", e.ErrorGroup())
	o.String("time_source", string(e.TimeSource))
	o.Time("first_failed", storable(e.FirstFailed))
	if len(e.Attempts) > 0 {
		o.Key("attempts")
		o.Dst = appendAttempts(o.Dst, e.Attempts)
	}
	o.String("body_in", string(e.BodyIn))
	o.String("redacted", e.redacted())
	if len(e.Subjects) > 0 {
		o.Key("subject")
		o.Dst = appendTexts(o.Dst, e.Subjects)
	}
	if e.OriginClaimed {
		o.String("origin", originClaimed)
	}
	if e.ByPriority {
		o.String("order", orderByPriority)
	}
	o.String("quarantined_action", string(e.QuarantinedAction))
	quarantined := o.Open("quarantined_error") // not in the mapping, so that the store cannot refuse it
	appendFailure(o, e.QuarantinedFailure)
	o.String("class", e.QuarantinedFailure.Class)
	o.String("rule", e.QuarantinedFailure.Rule)
	o.Close(quarantined)
	e.Stream.append(o)
	appendWatershipAudit(o, e)
	appendTriage(o, e)
	replay := o.Open("replay")
	o.String("job", e.Replay)
	o.String("of", e.ReplayOf)
	o.Close(replay)
	o.Close(watership)
}

// originClaimed is the value of watership.origin for an origin that only the consumer
// claims. The field is not in the mapping, since replays alone need it.
const originClaimed = "claimed"

// orderByPriority is the value of watership.order of an event with ByPriority. The field
// is not in the mapping either: readers look at events that they have.
const orderByPriority = "priority"

func appendTexts(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonappend.String(dst, text)
	}
	return append(dst, ']')
}

func appendAttempts(dst []byte, attempts []FailedAttempt) []byte {
	dst = append(dst, '[')
	for i, attempt := range attempts {
		if i > 0 {
			dst = append(dst, ',')
		}
		o := jsonappend.Begin(dst)
		o.Time("time", storable(attempt.Time))
		o.String("class", attempt.Class)
		dst = o.End()
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
