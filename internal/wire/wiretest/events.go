// Package wiretest has messages and events of every kind for the tests of packages schemas and wire.
package wiretest

import (
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// EveryType is a table with every field type that the client can carry.
func EveryType() amqp.Table {
	return amqp.Table{
		"bool": true, "int8": int8(-8), "uint8": uint8(200), "int16": int16(-16),
		"uint16": uint16(60000), "int32": int32(-32), "uint32": uint32(4e9),
		"int64": int64(math.MinInt64), "float32": float32(0.1), "float64": math.Copysign(0, -1),
		"nan": math.Float64frombits(0x7ff8000000000123), "inf": float32(math.Inf(-1)),
		"decimal": amqp.Decimal{Scale: 2, Value: -12345}, "string": "é \x00 \" \\ \u2028",
		"not utf-8 \xff": "\xfe\xff", "bytes": []byte{0, 255}, "none": nil, "": "an empty key",
		"time": time.Unix(math.MaxInt64, 0), "year 0": time.Unix(-62167219200, 0),
		"array": []any{int32(1), "two", []any{}, amqp.Table{"deep": nil}},
		"table": amqp.Table{"a.b": amqp.Table{"c": int64(1)}}, "tenant": "acme",
	}
}

func EveryProperty() schemas.Properties {
	return schemas.Properties{
		ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 7,
		CorrelationID: "corr", ReplyTo: "reply \xff", Expiration: "60000", MessageID: "m-1",
		Timestamp: time.Unix(1700000000, 0), Type: "order", UserID: "guest", AppID: "shop",
	}
}

// EveryEnvelope has the five properties that cannot travel unchanged.
func EveryEnvelope() schemas.Envelope {
	headers := EveryType()
	headers["CC"] = []any{"audit", "\xff"}
	return schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.\xff", Properties: EveryProperty(), Headers: headers, Body: []byte{0, 1, 0xff},
	}
}

func FailedEvent(body []byte) schemas.Event {
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	state := schemas.State{Version: header.Version, Message: "01J", EventID: "01K", Delay: 10 * time.Second, Waits: 3, WaitsSince: at, Replay: "job", ReplayOf: "01A", Parent: "v1:p"}
	state = state.Failed(at, 20*time.Millisecond, "orders", schemas.Failure{Message: "no stock of item 42", Type: "http.Status", Class: "default", Stack: "main.go:1"})
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "order.\xff", Properties: EveryProperty(), Headers: EveryType(), Body: body}
	state.Fingerprint = e.Fingerprint()
	return schemas.Event{
		State: state, Action: schemas.RetryScheduled, TimeSource: "event", Sequence: 1234567, Ingested: at,
		Source: "rabbit@shop/", VHost: "/", Envelope: e, BodySize: len(body),
	}
}

// GoldenEvent is a second failed attempt at an order.
func GoldenEvent() schemas.Event {
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	e := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created",
		Properties: schemas.Properties{
			ContentType: "application/json", DeliveryMode: 2, Priority: 5, CorrelationID: "cart-7", ReplyTo: "answers",
			Expiration: "60000", MessageID: "m-42", Timestamp: time.Unix(1777863720, 0), Type: "order", AppID: "web",
		},
		Headers: amqp.Table{
			"tenant": "acme", "attempt": int32(3), "a.b": []byte("bytes"), "weight": 1.5, "void": nil,
			"price": amqp.Decimal{Scale: 2, Value: 1999}, "latin1": "caf\xe9", "when": time.Unix(1777863720, 0),
			"nested": amqp.Table{"list": []any{int8(1), "two"}}, "CC": []any{"audit"},
			"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		Body: []byte(`{"order": 42, "items": [{"sku": "a-1", "count": 2}]}`),
	}
	state := schemas.State{Version: header.Version, Message: "01J", EventID: "01K", Parent: "v1:c0ffee", Fingerprint: e.Fingerprint()}
	state = state.Failed(at.Add(-10*time.Second), 0, "orders", schemas.Failure{Message: "timeout", Class: "default"})
	state = state.Failed(at, 20*time.Millisecond, "orders",
		schemas.Failure{Message: "no stock of item 42", Type: "http.Status", Class: "ordering", Stack: "main.go:1"})
	state.Delay = 10 * time.Second
	return schemas.Event{
		State: state, Action: schemas.RetryScheduled, TimeSource: "event", Sequence: 1777863721130000,
		Ingested: at.Add(time.Second), Source: "rabbit@shop/", VHost: "/", Envelope: e, BodySize: len(e.Body),
	}
}

// GoldenEnvelopes are messages with the fingerprints and ids below.
func GoldenEnvelopes() map[string]schemas.Envelope {
	order := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created", Body: []byte(`{"order":42}`),
		Properties: schemas.Properties{ContentType: "application/json", MessageID: "m-42"},
		Headers:    amqp.Table{"tenant": "acme", "attempt": int32(3)},
	}
	stamped := order
	stamped.Headers = amqp.Table{"tenant": "acme", "attempt": int32(3), "timestamp_in_ms": int64(1700000000123)}
	stamped.Properties.Timestamp = time.Unix(1700000000, 0)
	return map[string]schemas.Envelope{
		"nothing at all":         {},
		"an order":               order,
		"everything":             {Exchange: "shop", RoutingKey: "order.\xff", Properties: EveryProperty(), Headers: EveryType(), Body: []byte{0, 1, 0xff}},
		"broker's time":          stamped,
		"int32 and int64 differ": {Headers: amqp.Table{"n": int64(3)}},
		"a body of one space":    {Body: []byte(" ")},
	}
}

// FormerEvents are events with every type of header and property, every kind of body and
// most actions.
func FormerEvents() []schemas.Event {
	bodies := [][]byte{
		nil, []byte("no stock of violins"), []byte(`{"order":42,"lines":[{"sku":"a-1","price":2.50}],"name":"Ägir"}`),
		[]byte("{\n\t\"order\": 43,\r\n\t\"big\": 12345678901234567890.10\n}"),
		{0, 1, 0xff},
		[]byte(`{"a":1,"a":2}`), []byte("[1, 2]"),
	}
	var events []schemas.Event
	for i, body := range bodies {
		event := FailedEvent(body)
		event.EventID, event.Sequence = string(rune('a'+i)), int64(1000+i)
		events = append(events, event)
	}
	events[1].Action, events[2].Action, events[3].Action = schemas.Poisoned, schemas.Handled, schemas.Replayed
	published := GoldenEvent()
	published.State = schemas.State{Version: header.Version, EventID: "published", Fingerprint: published.Envelope.Fingerprint()}
	published.Action, published.TimeSource, published.Time = schemas.Published, "publisher", events[0].Time
	bare := schemas.Event{State: schemas.State{Version: header.Version, EventID: "bare", Time: events[0].Time}, Action: schemas.Published, Sequence: 2000, Source: "test"}
	text := bare
	text.EventID, text.Envelope.Headers = "texts", amqp.Table{"tenant": "acme", "a.b": "dotted", "": "no name"}
	elsewhere := FailedEvent(nil)
	elsewhere.EventID, elsewhere.BodyIn, elsewhere.BodySize = "elsewhere", schemas.BodyInPublished, 1<<20
	quarantined := FailedEvent([]byte(`{"order":44}`))
	quarantined.EventID, quarantined.Action, quarantined.QuarantinedAction = "quarantined", schemas.Quarantined, schemas.Poisoned
	quarantined.QuarantinedFailure = schemas.Failure{Message: "the handler's own"}
	return append(events, published, bare, text, elsewhere, quarantined)
}
