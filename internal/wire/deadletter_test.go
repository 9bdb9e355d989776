package wire

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// TestDeadLetterOfAChain: a message rejected in one queue, whose dead letters
// expired in another, failed in the second queue and has its origin before the
// first.
func TestDeadLetterOfAChain(t *testing.T) {
	first := wiretest.Death("orders", "rejected", "shop", "order.created")
	first["original-expiration"] = "60000"
	arrived := schemas.Envelope{Exchange: "watership.retry", RoutingKey: "parked", Headers: amqp.Table{
		"tenant": "acme", "x-first-death-queue": "orders",
		"x-death": []any{wiretest.Death("orders.parked", "expired", "shop.dlx", "order.created"), first},
	}}
	before, latest, dead := DeadLetter(arrived, func(older, newer header.Death) bool {
		return older.Queue == "orders" && newer.Exchange == "shop.dlx"
	})
	if !dead || latest.Queue != "orders.parked" || latest.Reason != "expired" {
		t.Errorf("its latest death is %+v (%v)", latest, dead)
	}
	if before.Exchange != "shop" || before.RoutingKey != "order.created" || before.Properties.Expiration != "60000" {
		t.Errorf("it was published to %q with %q, expiration %q", before.Exchange, before.RoutingKey, before.Properties.Expiration)
	}
	if len(before.Headers) != 1 {
		t.Errorf("the broker's headers stayed: %v", before.Headers)
	}
}

// TestDeathsOfAnother: a service copied the headers of a dead letter to the message
// that it published, which was dead-lettered as well. RabbitMQ 3.x adds to the
// copied deaths.
func TestDeathsOfAnother(t *testing.T) {
	theirs := wiretest.Death("orders", "rejected", "shop", "order.paid")
	theirs["original-expiration"] = "60000"
	arrived := schemas.Envelope{Exchange: "watership.retry", RoutingKey: "invoice.made", Headers: amqp.Table{
		"x-death": []any{wiretest.Death("invoices", "rejected", "billing", "invoice.made"), theirs},
	}}
	for name, leads := range map[string]func(older, newer header.Death) bool{
		"nobody knows": nil, "the queue's dead letters go elsewhere": func(header.Death, header.Death) bool { return false },
	} {
		before, latest, _ := DeadLetter(arrived, leads)
		if before.Exchange != "billing" || before.RoutingKey != "invoice.made" || before.Properties.Expiration != "" || latest.Queue != "invoices" {
			t.Errorf("%s: it was published to %q with %q, expiration %q", name, before.Exchange, before.RoutingKey, before.Properties.Expiration)
		}
	}
}

func TestNoDeadLetter(t *testing.T) {
	for name, headers := range map[string]amqp.Table{
		"no headers": nil, "another type": {"x-death": "rejected"}, "empty": {"x-death": []any{}}, "no tables": {"x-death": []any{1}},
	} {
		if _, _, dead := DeadLetter((schemas.Envelope{Exchange: "shop", Headers: headers}), nil); dead {
			t.Errorf("%s: taken for a dead letter", name)
		}
	}
}
