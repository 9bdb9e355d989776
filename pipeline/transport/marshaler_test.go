package transport

import (
	"maps"
	"reflect"
	"testing"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// everything is a message with every property and every header type.
func everything() amqp.Publishing {
	return amqp.Publishing{
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: 1, Priority: 3,
		CorrelationId: "correlation", ReplyTo: "reply", Expiration: "600000", MessageId: "id",
		Timestamp: time.Unix(1700000000, 0), Type: "type", UserId: "guest", AppId: "app",
		Headers: amqp.Table{
			"text": "plain", "empty": "", "not utf-8": "\xff\xfe", "_watermill": "own", "": "no name",
			"bool": true, "byte": byte(200), "int8": int8(-8), "int16": int16(-16), "uint16": uint16(16), "int32": int32(-32),
			"uint32": uint32(32), "int64": int64(1 << 60), "float32": float32(0.1), "float64": 0.1,
			"decimal": amqp.Decimal{Scale: 2, Value: 12345}, "bytes": []byte{0, 1, 255}, "time": time.Unix(1, 0), "nil": nil,
			"table": amqp.Table{"deep": []any{int64(1), "x", amqp.Table{}}}, "list": []any{true, nil, "x"},
			EnvelopeKey: "somebody else's",
		},
		Body: []byte{0, 1, 2, 0xff},
	}
}

func arrived(p amqp.Publishing) amqp.Delivery {
	return amqp.Delivery{
		Headers: p.Headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
		MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId, Body: p.Body,
		Exchange: "exchange", RoutingKey: "routing.key",
	}
}

func equal(t testing.TB, got, want amqp.Publishing) {
	t.Helper()
	if !got.Timestamp.Equal(want.Timestamp) {
		t.Errorf("timestamp: got %v, want %v", got.Timestamp, want.Timestamp)
	}
	got.Timestamp, want.Timestamp = time.Time{}, time.Time{}
	if string(tablejson.Append(nil, got.Headers)) != string(tablejson.Append(nil, want.Headers)) {
		t.Errorf("headers:\n got %#v\nwant %#v", got.Headers, want.Headers)
	}
	got.Headers, want.Headers = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %#v\nwant %#v", got, want)
	}
}

func TestUnmarshalThenMarshalIsTheMessage(t *testing.T) {
	withUUID := everything()
	withUUID.Headers[defaultUUIDHeader] = "header id"
	oddUUID := everything()
	oddUUID.Headers[defaultUUIDHeader] = int32(7)
	for name, p := range map[string]amqp.Publishing{
		"everything": everything(), "nothing": {}, "with UUID": withUUID, "UUID of another type": oddUUID,
		"the first second": {Timestamp: time.Unix(0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			msg, err := Marshaler{}.Unmarshal(arrived(p))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Marshaler{}.Marshal(msg.Copy())
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, p)
			envelope, ok := EnvelopeOf(msg.Copy())
			if !ok || envelope.Exchange != "exchange" || envelope.RoutingKey != "routing.key" {
				t.Errorf("envelope %+v", envelope)
			}
		})
	}
}

func TestUUIDIsHeaderThenPropertyThenNothing(t *testing.T) {
	for want, d := range map[string]amqp.Delivery{
		"header":   {MessageId: "property", Headers: amqp.Table{defaultUUIDHeader: "header"}},
		"property": {MessageId: "property"},
		"":         {},
	} {
		if msg, _ := (Marshaler{}).Unmarshal(d); msg.UUID != want {
			t.Errorf("got %q, want %q", msg.UUID, want)
		}
	}
}

func TestChangesOfAHandlerAreMarshaled(t *testing.T) {
	msg, _ := Marshaler{}.Unmarshal(arrived(everything()))
	msg.UUID = "another"
	msg.Payload = []byte("other")
	msg.Metadata.Set("text", "changed")
	msg.Metadata.Set("new", "header")
	delete(msg.Metadata, "empty")
	got, err := Marshaler{}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	want := everything()
	want.Headers = maps.Clone(want.Headers)
	want.Headers["text"], want.Headers["new"], want.Headers[defaultUUIDHeader] = "changed", "header", "another"
	delete(want.Headers, "empty")
	want.MessageId, want.Body = "another", []byte("other")
	equal(t, got, want)
}

// Where all headers are strings, metadata has them all.
func TestHeadersThatAreAllMetadata(t *testing.T) {
	for _, headers := range []amqp.Table{{}, {"k": "v"}} {
		msg, _ := Marshaler{}.Unmarshal(arrived(amqp.Publishing{Headers: headers, Body: []byte("x")}))
		msg.Metadata.Set("more", "w")
		want := maps.Clone(headers)
		want["more"] = "w"
		got, err := Marshaler{}.Marshal(msg)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, amqp.Publishing{Headers: want, Body: []byte("x")})
		if e, ok := EnvelopeOf(msg); !ok || !maps.Equal(e.Headers, want) {
			t.Errorf("%v, want %v", e.Headers, want)
		}
	}
}

func TestNewMessageIsPersistentAndHasItsID(t *testing.T) {
	msg := message.NewMessage("uuid", []byte("x"))
	msg.Metadata.Set("k", "v")
	got, _ := Marshaler{}.Marshal(msg)
	equal(t, got, amqp.Publishing{
		DeliveryMode: 2, MessageId: "uuid", Body: []byte("x"), Headers: amqp.Table{"k": "v", defaultUUIDHeader: "uuid"},
	})
	if got, _ := (Marshaler{NotPersistent: true, UUIDHeader: "id"}).Marshal(msg); got.DeliveryMode != 0 || got.Headers["id"] != "uuid" {
		t.Errorf("got %+v", got)
	}
	msg.Metadata.Set(EnvelopeKey, "tampered")
	if _, err := (Marshaler{}).Marshal(msg); err == nil {
		t.Error("a broken envelope was accepted")
	}
}

func FuzzMarshaler(f *testing.F) {
	f.Add("key", "value", "id", []byte("body"), int64(1))
	f.Add(EnvelopeKey, "\xff", "", []byte{0}, int64(-1))
	f.Add(defaultUUIDHeader, "x", "x", []byte{}, int64(0))
	f.Fuzz(func(t *testing.T, key, value, id string, body []byte, number int64) {
		p := amqp.Publishing{
			Headers: amqp.Table{key: value, key + "n": number, "t": amqp.Table{value: body}}, MessageId: id, Body: body,
		}
		msg, _ := Marshaler{}.Unmarshal(arrived(p))
		got, err := Marshaler{}.Marshal(msg.Copy())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, p)
	})
}

func FuzzTamperedEnvelope(f *testing.F) {
	msg, _ := Marshaler{}.Unmarshal(arrived(everything()))
	f.Add(msg.Metadata[EnvelopeKey])
	f.Add("1;99:x")
	f.Add("1;0:0:0:0:0:0:0:0:0:0:0:1;2;")
	f.Fuzz(func(t *testing.T, kept string) {
		msg := message.NewMessage("uuid", nil)
		msg.Metadata.Set(EnvelopeKey, kept)
		first, err := Marshaler{}.Marshal(msg)
		if err != nil {
			return
		}
		again, _ := Marshaler{}.Unmarshal(arrived(first))
		second, err := Marshaler{}.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, second, first)
	})
}

// TestStockTransportCarriesEverything sends a message through the stock transport
// with our Marshaler, and back through ours.
func TestStockTransportCarriesEverything(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := queueConfig(b)
		cfg.Marshaler = Marshaler{}
		first, second := b.Queue(t, nil), b.Queue(t, nil)
		if err := b.Channel(t).Publish("", first, false, false, everything()); err != nil {
			t.Fatal(err)
		}
		stockSubscriber, err := wamqp.NewSubscriber(cfg, nopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		defer stockSubscriber.Close()
		cfg.Publish.ConfirmDelivery = true
		stockPublisher, err := wamqp.NewPublisher(cfg, nopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		defer stockPublisher.Close()
		msg := rabbittest.Receive(t, subscribe(t, stockSubscriber, first))
		publish(t, stockPublisher, second, msg.Copy())
		msg.Ack()

		ours := newTestSubscriber(t, cfg)
		got := rabbittest.Receive(t, subscribe(t, ours, second))
		back := newTestPublisher(t, cfg)
		third := b.Queue(t, nil)
		publish(t, back, third, got)
		got.Ack()
		equal(t, schemas.FromDelivery(b.Take(t, third, 1)[0]).Publishing(), everything())
	})
}

// TestStockMarshalersInteroperate: a stock consumer reads what we publish, and we
// read what a stock publisher publishes.
func TestStockMarshalersInteroperate(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		stock := wamqp.NewDurableQueueConfig(b.URL)
		queue := b.Queue(t, nil)
		msg := message.NewMessage("uuid", []byte("payload"))
		msg.Metadata.Set("k", "v")

		publish(t, newTestPublisher(t, queueConfig(b)), queue, msg)
		stockSubscriber, err := wamqp.NewSubscriber(stock, nopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		got := rabbittest.Receive(t, subscribe(t, stockSubscriber, queue))
		if !got.Equals(msg) {
			t.Errorf("stock got %s %v %s", got.UUID, got.Metadata, got.Payload)
		}
		got.Ack()
		stockSubscriber.Close()

		stockPublisher, err := wamqp.NewPublisher(stock, nopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		defer stockPublisher.Close()
		publish(t, stockPublisher, queue, msg)
		got = rabbittest.Receive(t, subscribe(t, newTestSubscriber(t, queueConfig(b)), queue))
		delete(got.Metadata, EnvelopeKey)
		if !got.Equals(msg) {
			t.Errorf("we got %s %v %s", got.UUID, got.Metadata, got.Payload)
		}
		got.Ack()
	})
}
