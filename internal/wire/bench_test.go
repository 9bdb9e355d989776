package wire

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// benchDelivery is 1 KiB of JSON with 20 keys and 8 headers.
func benchDelivery() amqp.Delivery {
	body := []byte(`{"order":42`)
	for key := range 19 {
		body = fmt.Appendf(body, `,"key_%02d":"value %d of order %d, and words"`, key, key, 42)
	}
	body = append(body, '}')
	return amqp.Delivery{
		Exchange: "shop", RoutingKey: "order.created", MessageId: "m-42", ContentType: "application/json", DeliveryMode: 2,
		Body: append(body, bytes.Repeat([]byte(" "), max(0, 1024-len(body)))...),
		Headers: amqp.Table{
			"tenant": "acme", "region": "eu-central-1", "attempt": int32(3), "priority": int64(3), "sampled": true,
			"weight": 1.5, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "source": "checkout",
		},
	}
}

// BenchmarkTapped and BenchmarkDocument measure Watership's own work on a message,
// between the broker's client and the store's.
func BenchmarkTapped(b *testing.B) {
	d, dec, now := benchDelivery(), Decoder{Source: "rabbit@shop/"}, time.Now()
	b.ReportAllocs()
	for b.Loop() {
		dec.Tapped(d, now, 1)
	}
}

func BenchmarkTimeHeader(b *testing.B) {
	d, now := benchDelivery(), time.Now()
	d.Timestamp = time.Time{}
	d.Headers["sent_at"] = now.UTC().Format(time.RFC1123)
	dec := Decoder{Source: "rabbit@shop/", TimeHeaders: []string{"timestamp", "sent_at"}}
	b.ReportAllocs()
	for b.Loop() {
		dec.Tapped(d, now, 1)
	}
}

func BenchmarkDocument(b *testing.B) {
	event := Decoder{Source: "rabbit@shop/"}.Tapped(benchDelivery(), time.Now(), 1)
	var document []byte
	b.ReportAllocs()
	for b.Loop() {
		document = schemas.DocumentFormat{}.Append(document[:0], event)
	}
	b.SetBytes(int64(len(document)))
}

func BenchmarkParseDocument(b *testing.B) {
	document := schemas.DocumentFormat{}.Document(Decoder{Source: "rabbit@shop/"}.Tapped(benchDelivery(), time.Now(), 1))
	b.SetBytes(int64(len(document.Source)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schemas.ParseDocument(document.Source); err != nil {
			b.Fatal(err)
		}
	}
}
