package schemas

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas/jsonscan"
)

// appendExact appends the envelope without its body. Replay restores the properties
// and headers, bit for bit, from this field alone. keys are the sorted keys of the
// headers.
func appendExact(o *object, e Envelope, keys []string) {
	o.text("exchange", e.Exchange)
	o.text("routing_key", e.RoutingKey)
	properties := o.open("properties")
	appendProperties(o, e.Properties)
	o.close(properties)
	if len(keys) > 0 {
		o.key("headers")
		o.dst = appendMembers(o.dst, e.Headers, keys)
	}
}

func appendProperties(o *object, p Properties) {
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
}

// text appends a string exactly: as name, or as name64 in base64 if it is not
// UTF-8.
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

// readExact is the inverse of appendExact.
func readExact(r *jsonscan.Reader) Envelope {
	var e Envelope
	r.Object(func(name []byte) {
		plain, encoded := bytes.CutSuffix(name, []byte("64"))
		switch string(plain) {
		case "exchange":
			e.Exchange = exactText(r, encoded)
		case "routing_key":
			e.RoutingKey = exactText(r, encoded)
		case "properties":
			e.Properties = readProperties(r)
		case "headers":
			if e.Headers = readTable(r); len(e.Headers) == 0 {
				e.Headers = nil
			}
		}
	})
	return e
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

// exactText reads a string that object.text wrote: base64 if its name ends in 64.
func exactText(r *jsonscan.Reader, encoded bool) string {
	if encoded {
		return string(r.Bytes())
	}
	return r.Text()
}
