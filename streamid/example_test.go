package streamid_test

import (
	"fmt"
	"log"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// The stream of an order has its number from the body, and the versions of a header.
func ExampleNew() {
	streams, err := streamid.New(streamid.Rule{
		Exchange: "shop", Key: "order.#", ID: "order-{body.json.order.id}", Version: "{headers.version}",
	})
	if err != nil {
		log.Fatal(err)
	}
	found := streams(schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created",
		Headers: amqp.Table{"version": int32(3)}, Body: []byte(`{"order": {"id": 42}}`),
	})
	fmt.Println(found.ID, found.Version)
	// Output: order-42 3
}
