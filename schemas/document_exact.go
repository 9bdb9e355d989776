package schemas

import "unicode/utf8"

// appendExact writes the envelope, but for its body, from which replay
// restores it to the last bit. Nothing else of the document is read for that.
// keys are those of the headers, sorted.
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
