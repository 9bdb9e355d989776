package brokertest

import (
	"encoding/binary"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// types checks that a consumer gets the values of the publisher, type by type.
func types() []behaviour {
	return []behaviour{
		{name: "every property", check: everyProperty},
		{name: "every header type", check: headerTypes},
		{name: "every header type through a dead-lettering", check: headerTypesOfDeadLetter},
		{name: "every header type through a quorum redelivery", check: headerTypesOfRedelivery},
		{name: "no headers and empty headers", check: emptyHeaders},
		{name: "unsigned header types", check: unsignedHeaders},
		{name: "deep headers", check: deepHeaders},
		{name: "large headers", check: largeHeaders},
		{name: "not a number in a header", check: notANumberHeader},
		{name: "headers that cannot be read", check: malformedHeaders},
		{name: "properties that cannot be read", check: malformedProperties},
	}
}

func everyProperty(p *probe) {
	q := p.queue(nil)
	m := amqp.Publishing{
		ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 7,
		CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "m",
		Timestamp: time.Unix(1700000000, 0), Type: "t", UserId: p.username(), AppId: "a",
		Headers: amqp.Table{"h": "v"}, Body: []byte("body"),
	}
	p.publish("", q, m)
	d := p.get(q)
	p.wantEqual("properties", amqp.Publishing{
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Headers: d.Headers, Body: d.Body,
	}, m)
}

func headerTypes(p *probe) {
	headers := everyType()
	q := p.queue(nil)
	p.publish("", q, amqp.Publishing{Headers: headers})
	p.wantEqual("headers", p.get(q).Headers, headers)
}

func headerTypesOfDeadLetter(p *probe) {
	headers := everyType()
	dead := p.queue(nil)
	q := p.queue(deadLetterArguments("", dead))
	p.publish("", q, amqp.Publishing{Headers: headers})
	p.must(p.getWith(p.ch, q, false).Nack(false, false))
	got := p.get(dead).Headers
	for name := range got {
		if strings.HasPrefix(name, "x-") {
			delete(got, name)
		}
	}
	p.wantEqual("headers", got, headers)
}

func headerTypesOfRedelivery(p *probe) {
	headers := everyType()
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishConfirmed("", q, amqp.Publishing{Headers: headers})
	p.must(p.getWith(p.ch, q, false).Reject(true))
	got := p.get(q).Headers
	p.wantEqual("count", got["x-delivery-count"], any(int64(1)))
	delete(got, "x-delivery-count")
	delete(got, "x-acquired-count")
	p.wantEqual("headers", got, headers)
}

func emptyHeaders(p *probe) {
	q := p.queue(nil)
	p.publish("", q, amqp.Publishing{})
	p.publish("", q, amqp.Publishing{Headers: amqp.Table{}})
	p.wantEqual("headers", len(p.get(q).Headers)+len(p.get(q).Headers), 0)
}

func unsignedHeaders(p *probe) {
	q := p.queue(nil)
	w := p.openRaw()
	w.openChannel(1)
	headers := "\x01bB\xFF" + "\x01ii\xFF\xFF\xFF\xFF" + "\x01uu\xFF\xFF"
	w.publish(1, q, "\x20\x00"+longstr(headers), "a")
	w.send(1, 60, 70, "short", 0, "shortstr", q, "octet", 1)
	w.expect(1, 60, 71)
	_, _, payload, err := w.read()
	p.must(err)
	p.wantEqual("header frame", string(payload[12:]), "\x20\x00"+longstr(headers))
}

func deepHeaders(p *probe) {
	q := p.queue(nil)
	headers := "\x01tV"
	for range 5000 { // nested deeper than clients read
		headers = "\x01tF" + longstr(headers)
	}
	w := p.openRaw()
	w.openChannel(1)
	w.publish(1, q, "\x20\x00"+longstr(headers), "a")
	w.send(1, 60, 70, "short", 0, "shortstr", q, "octet", 1)
	w.expect(1, 60, 71)
	_, _, payload, err := w.read()
	p.must(err)
	p.wantEqual("same", string(payload[12:]) == "\x20\x00"+longstr(headers), true)
}

func largeHeaders(p *probe) {
	q := p.queue(nil)
	big := strings.Repeat("x", 130_000)
	p.publish("", q, amqp.Publishing{Headers: amqp.Table{"big": big}})
	p.wantEqual("same", p.get(q).Headers["big"] == big, true)
}

func notANumberHeader(p *probe) {
	for name, number := range map[string]uint64{"NaN": 0x7FF8000000000001, "Inf": 0x7FF0000000000000} {
		w := p.openRaw()
		w.openChannel(1)
		w.publish(1, p.queue(nil), "\x20\x00"+longstr("\x01fd"+string(binary.BigEndian.AppendUint64(nil, number))), "a")
		code, _ := w.readClose(0)
		p.wantEqual(name, code, 541)
	}
}

func malformedHeaders(p *probe) {
	for name, table := range map[string]string{
		"unknown type": "\x01aZ1", "too short": "\x01aI\x00\x00", "a string past the end": "\x01aS\x00\x00\x00\x09short",
	} {
		w := p.openRaw()
		w.openChannel(1)
		w.publish(1, p.queue(nil), "\x20\x00"+longstr(table), "a")
		code, text := w.readClose(0)
		p.Log(name, code, text)
		p.wantEqual(name, code, 541)
	}
}

func malformedProperties(p *probe) {
	for name, properties := range map[string]string{
		"too short": "\x80\x00\x09text", "too long": "\x00\x00rest", "none": "", "more flags": "\x00\x01\x00\x00",
	} {
		w := p.openRaw()
		w.openChannel(1)
		w.publish(1, p.queue(nil), properties, "a")
		code, text := w.readClose(0)
		p.Log(name, code, text)
		p.wantEqual(name, code >= 501, true)
	}
}

func longstr(s string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func everyType() amqp.Table {
	return amqp.Table{
		"bool": true, "int8": int8(-8), "byte": byte(200), "int16": int16(-16), "int32": int32(-32), "int64": int64(-64),
		"float32": float32(1.5), "float64": float64(-2.25), "decimal": amqp.Decimal{Scale: 2, Value: 12345},
		"string": "text", "bytes": []byte{0, 255, 7}, "time": time.Unix(1700000000, 0), "void": nil, "empty": "",
		"array": []any{"a", int32(1), amqp.Table{"in": int64(2)}, []any{true}},
		"table": amqp.Table{"deep": amqp.Table{"deeper": "yes", "n": nil}},
	}
}
