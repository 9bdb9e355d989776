package streamid_test

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// BenchmarkStreams finds the stream and the version of a message of about a kilobyte.
func BenchmarkStreams(b *testing.B) {
	e := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.42.created",
		Headers: amqp.Table{"id": "42", "version": int32(7), "tenant": "acme", "a": "b", "c": "d"},
		Body:    fmt.Appendf(nil, `{"order":{"id":42,"version":7},"lines":[%s{}]}`, strings.Repeat(`{"sku":"a-1","count":3},`, 40)),
	}
	for name, rule := range map[string]streamid.Rule{
		"headers": {ID: "{headers.id}", Version: "{headers.version}"},
		"key":     {Key: "order.#", ID: "{routing_key.1}-{routing_key.2}"},
		"body":    {ID: "order-{body.json.order.id}", Version: "{body.json.order.version}"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			streams := rules(b, rule)
			for b.Loop() {
				if streams(e).ID == "" {
					b.Fatal("no stream")
				}
			}
		})
	}
}
