package shop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// The routing keys.
const (
	orderPlaced  = "order.placed"
	orderChanged = "order.changed"
	paymentTaken = "payment.taken"
)

// order is the body of every message of the shop.
type order struct {
	Number   int     `json:"number"`
	Customer string  `json:"customer,omitempty"`
	Item     string  `json:"item,omitempty"`
	Amount   float64 `json:"amount,omitempty"`
	Address  string  `json:"address,omitempty"`
}

// OrderID is the message id of an order.
func OrderID(n int) string { return fmt.Sprintf("order-%d", n) }

const (
	changeLead = 2 // a change is published this many orders before its own

	changedEvery    = 10
	anonymousEvery  = 25
	changedNumber   = 3 // of ten
	anonymousNumber = 6 // of twenty-five: an order without a customer
)

// messages returns the messages to publish with order n.
func (s *Shop) messages(n int) []schemas.Envelope {
	messages := []schemas.Envelope{s.orderPlacement(n)}
	if changed := n + changeLead; changed%changedEvery == changedNumber {
		change := order{Number: changed, Address: "12 Nuthanger Down"}
		messages = append(messages, envelope(Orders, orderChanged, fmt.Sprintf("change-%d", changed), change, s.tenant(changed)))
	}
	return messages
}

// orderPlacement returns the message that places order n.
func (s *Shop) orderPlacement(n int) schemas.Envelope {
	random := s.random(n)
	o := order{
		Number:   n,
		Customer: pickOne(random, "hazel", "fiver", "bigwig", "blackberry", "dandelion"),
		Item:     pickOne(random, "violin", "lettuce", "lantern", "umbrella", "teapot"),
		Amount:   float64(random.IntN(20_000)+99) / 100,
	}
	if n%anonymousEvery == anonymousNumber {
		o.Customer = ""
	}
	return envelope(Orders, orderPlaced, OrderID(n), o, s.tenant(n))
}

// random returns a generator for one order, so that the orders before do not matter.
func (s *Shop) random(n int) *rand.Rand { return rand.New(rand.NewPCG(s.cfg.Seed, uint64(n))) }

func (s *Shop) tenant(n int) string { return pickOne(s.random(-n), "acme", "globex", "initech") }

func pickOne(random *rand.Rand, from ...string) string { return from[random.IntN(len(from))] }

// envelope returns a message with the time of its publish, by which its times of work are known.
func envelope(exchange, key, id string, body order, tenant string) schemas.Envelope {
	text, _ := json.Marshal(body) // texts and numbers
	return schemas.Envelope{
		Exchange: exchange, RoutingKey: key, Body: text, Headers: amqp.Table{"tenant": tenant, "timestamp_in_ms": time.Now().UnixMilli()},
		Properties: schemas.Properties{MessageID: id, ContentType: "application/json", DeliveryMode: amqp.Persistent, AppID: publisherOf(exchange)},
	}
}

// publisherOf returns the name of the service that publishes to an exchange.
func publisherOf(exchange string) string {
	switch exchange {
	case Payments:
		return "billing"
	case Shipments:
		return "warehouse"
	}
	return "shop"
}
