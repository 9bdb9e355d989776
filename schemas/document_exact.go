package schemas

import (
	"bytes"
	"cmp"
	"maps"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/jsonscan"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// appendRemainder appends what messaging and headers do not have exactly: the other
// properties, and the headers that are no texts. Both are restored from all three, bit for
// bit. Without exactTexts, headers does not have the texts exactly, and amqp has all headers.
func appendRemainder(o *jsonappend.Object, e *Event, headers []tablejson.Field, exactTexts bool) {
	properties := o.Open("properties")
	appendProperties(o, e.Envelope.Properties.remainder())
	o.Close(properties)
	if !exactTexts {
		appendAllHeaders(o, headers)
		return
	}
	var room [tablejson.Room]tablejson.Field
	typed := room[:0]
	for _, field := range headers {
		if _, isText := field.Value.(string); !isText {
			typed = append(typed, field)
		}
	}
	if len(typed) > 0 {
		o.Key("typed_headers")
		o.Dst = tablejson.AppendFields(o.Dst, typed)
	}
}

// remainder returns the properties without those that messaging has exactly.
func (p Properties) remainder() Properties {
	for _, property := range []*string{&p.MessageID, &p.CorrelationID, &p.Type, &p.ContentType, &p.AppID, &p.UserID, &p.ReplyTo} {
		if utf8.ValidString(*property) {
			*property = ""
		}
	}
	return p
}

// appendExact appends the envelope without its body, so that the properties and headers can
// be restored from this field alone.
func appendExact(o *jsonappend.Object, e Envelope) {
	o.Exact("exchange", e.Exchange)
	o.Exact("routing_key", e.RoutingKey)
	properties := o.Open("properties")
	appendProperties(o, e.Properties)
	o.Close(properties)
	var room [tablejson.Room]tablejson.Field
	appendAllHeaders(o, tablejson.Sorted(room[:], e.Headers, nil))
}

func appendAllHeaders(o *jsonappend.Object, headers []tablejson.Field) {
	if len(headers) > 0 {
		o.Key("headers")
		o.Dst = tablejson.AppendFields(o.Dst, headers)
	}
}

func appendProperties(o *jsonappend.Object, p Properties) {
	o.Exact("content_type", p.ContentType)
	o.Exact("content_encoding", p.ContentEncoding)
	o.Positive("delivery_mode", int64(p.DeliveryMode))
	o.Positive("priority", int64(p.Priority))
	o.Exact("correlation_id", p.CorrelationID)
	o.Exact("reply_to", p.ReplyTo)
	o.Exact("expiration", p.Expiration)
	o.Exact("message_id", p.MessageID)
	if !p.Timestamp.IsZero() {
		o.Int("timestamp", p.Timestamp.Unix())
	}
	o.Exact("type", p.Type)
	o.Exact("user_id", p.UserID)
	o.Exact("app_id", p.AppID)
}

// exactParts are the parts of a document that have the envelope.
type exactParts struct {
	messaging, amqp Envelope   // without headers
	all             amqp.Table // amqp.headers: all headers, if it is there
	texts, typed    amqp.Table // headers that are texts, and amqp.typed_headers
	body            []byte
}

// envelope combines the parts. amqp has what messaging has changed, and in version 1 all.
func (x *exactParts) envelope() Envelope {
	e := x.amqp
	e.Exchange, e.RoutingKey = cmp.Or(e.Exchange, x.messaging.Exchange), cmp.Or(e.RoutingKey, x.messaging.RoutingKey)
	p, m := &e.Properties, x.messaging.Properties
	p.MessageID, p.CorrelationID = cmp.Or(p.MessageID, m.MessageID), cmp.Or(p.CorrelationID, m.CorrelationID)
	p.Type, p.ContentType = cmp.Or(p.Type, m.Type), cmp.Or(p.ContentType, m.ContentType)
	p.AppID, p.UserID, p.ReplyTo = cmp.Or(p.AppID, m.AppID), cmp.Or(p.UserID, m.UserID), cmp.Or(p.ReplyTo, m.ReplyTo)
	e.Headers, e.Body = x.headers(), x.body
	return e
}

func (x *exactParts) headers() amqp.Table {
	table := x.all
	if table == nil {
		table = x.texts
		if len(table) == 0 {
			table = x.typed
		} else {
			maps.Copy(table, x.typed)
		}
	}
	if len(table) == 0 {
		return nil
	}
	return table
}

// AppendExact appends the envelope without its body as JSON, from which ReadExact restores it.
func (e Envelope) AppendExact(dst []byte) []byte {
	o := jsonappend.Begin(dst)
	appendExact(&o, e)
	return o.End()
}

// ReadExact replaces an envelope by the one in a JSON value that AppendExact wrote.
func (e *Envelope) ReadExact(r *jsonscan.Reader) {
	var x exactParts
	x.readAMQP(r)
	*e = x.envelope()
}

// readAMQP reads what appendRemainder or appendExact wrote.
func (x *exactParts) readAMQP(r *jsonscan.Reader) {
	r.Object(func(name []byte) {
		plain, encoded := bytes.CutSuffix(name, []byte("64"))
		switch string(plain) {
		case "exchange":
			x.amqp.Exchange = exactText(r, encoded)
		case "routing_key":
			x.amqp.RoutingKey = exactText(r, encoded)
		case "properties":
			x.amqp.Properties = readProperties(r)
		case "headers":
			x.all = tablejson.Read(r)
		case "typed_headers":
			x.typed = tablejson.Read(r)
		}
	})
}

// readHeaders reads the searchable headers that are texts. A document of version 1 does not
// need them, since amqp comes first.
func (x *exactParts) readHeaders(r *jsonscan.Reader) {
	if x.all != nil {
		return
	}
	x.texts = amqp.Table{}
	r.Object(func(name []byte) {
		key := string(name)
		if r.Peek() == '"' {
			x.texts[key] = r.TextValue()
		}
	})
}

func (x *exactParts) readMessaging(r *jsonscan.Reader, e *Event) {
	m := &x.messaging
	r.Object(func(name []byte) {
		switch string(name) {
		case "destination":
			readExactMember(r, "name", &m.Exchange)
		case "rabbitmq":
			r.Object(func(name []byte) {
				if string(name) == "destination" {
					readExactMember(r, "routing_key", &m.RoutingKey)
				}
			})
		case "message":
			x.readMessage(r, e)
		case "type":
			m.Properties.Type = r.Text()
		case "content_type":
			m.Properties.ContentType = r.Text()
		case "app_id":
			m.Properties.AppID = r.Text()
		case "user_id":
			m.Properties.UserID = r.Text()
		case "reply_to":
			m.Properties.ReplyTo = r.Text()
		}
	})
}

func (x *exactParts) readMessage(r *jsonscan.Reader, e *Event) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "id":
			x.messaging.Properties.MessageID = r.Text()
		case "conversation_id":
			x.messaging.Properties.CorrelationID = r.Text()
		case "body":
			r.Object(func(name []byte) {
				if string(name) == "size" {
					e.BodySize = int(r.Int(64))
				}
			})
		}
	})
}

func readExactMember(r *jsonscan.Reader, wanted string, into *string) {
	r.Object(func(name []byte) {
		if plain, encoded := bytes.CutSuffix(name, []byte("64")); string(plain) == wanted {
			*into = exactText(r, encoded)
		}
	})
}

func readProperties(r *jsonscan.Reader) Properties {
	var p Properties
	r.Object(func(name []byte) {
		plain, encoded := bytes.CutSuffix(name, []byte("64"))
		switch string(plain) {
		case "content_type":
			p.ContentType = exactText(r, encoded)
		case "content_encoding":
			p.ContentEncoding = exactText(r, encoded)
		case "delivery_mode":
			p.DeliveryMode = uint8(r.Uint(8))
		case "priority":
			p.Priority = uint8(r.Uint(8))
		case "correlation_id":
			p.CorrelationID = exactText(r, encoded)
		case "reply_to":
			p.ReplyTo = exactText(r, encoded)
		case "expiration":
			p.Expiration = exactText(r, encoded)
		case "message_id":
			p.MessageID = exactText(r, encoded)
		case "timestamp":
			p.Timestamp = time.Unix(r.Int(64), 0)
		case "type":
			p.Type = exactText(r, encoded)
		case "user_id":
			p.UserID = exactText(r, encoded)
		case "app_id":
			p.AppID = exactText(r, encoded)
		}
	})
	return p
}

// exactText reads a string that Object.Exact wrote: base64 if its name ends in 64.
func exactText(r *jsonscan.Reader, encoded bool) string {
	if encoded {
		return string(r.Bytes())
	}
	return r.Text()
}
