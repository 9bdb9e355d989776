package schemas

import (
	"bytes"
	"time"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/jsonscan"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// appendExact appends the envelope without its body. Replay restores the properties
// and headers, bit for bit, from this field alone. keys are the sorted keys of the
// headers.
func appendExact(o *jsonappend.Object, e Envelope, keys []string) {
	o.Exact("exchange", e.Exchange)
	o.Exact("routing_key", e.RoutingKey)
	properties := o.Open("properties")
	appendProperties(o, e.Properties)
	o.Close(properties)
	if len(keys) > 0 {
		o.Key("headers")
		o.Dst = tablejson.AppendSorted(o.Dst, e.Headers, keys)
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
			if e.Headers = tablejson.Read(r); len(e.Headers) == 0 {
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

// exactText reads a string that Object.Exact wrote: base64 if its name ends in 64.
func exactText(r *jsonscan.Reader, encoded bool) string {
	if encoded {
		return string(r.Bytes())
	}
	return r.Text()
}
