package doctor

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

const orderedRoute = `WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: "http://localhost:1/"}}, fairness: {key: "{headers.tenant}", ordered: true}}]`

// failedAgo is an event of a message that failed some time ago, and waits for an hour.
func failedAgo(ago time.Duration, tenant, id string) schemas.Event {
	return schemas.Event{
		Action:   schemas.RetryScheduled,
		Envelope: schemas.Envelope{RoutingKey: "orders", Headers: amqp.Table{"tenant": tenant}, Properties: schemas.Properties{MessageID: id}},
		State: schemas.State{
			Message: "instance of " + id, Queue: "orders", Attempt: 3, FirstFailed: time.Now().Add(-ago), Time: time.Now(), Delay: time.Hour,
			Failure: schemas.Failure{Message: "no\nstock"},
		},
	}
}

// The later messages of a key wait as long as an earlier one fails. Doctor names the key and the message.
func TestKeysThatStand(t *testing.T) {
	s := newSite(t, orderedRoute)
	want(t, Run(t.Context(), s.Config), OK, "no key of an ordered route stands for more than 15m", "")
	first := failedAgo(time.Hour, "acme", "order-7")
	systemtest.Record(t, s.system, first, failedAgo(time.Second, "zenith", "order-8"))
	list := of("keys", Run(t.Context(), s.Config))
	want(t, list, Warning, `later messages of 1 key at queue orders wait for one that failed more than 15m ago: key "acme" for message order-7; error of the first: no stock`,
		"watership waiting now 'queue: orders'")
	wantNone(t, list, "zenith")
	if len(list) != 1 || list[0].Since == nil || first.FirstFailed.Sub(*list[0].Since).Abs() > time.Second {
		t.Errorf("%+v", list)
	}
}

// With a place for each message that failed and no more, nothing waits for them.
func TestKeysForWhichNothingWaits(t *testing.T) {
	for places, verdict := range map[int64]Verdict{1: OK, 2: Warning} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			s := newSite(t, orderedRoute)
			systemtest.Record(t, s.system, failedAgo(time.Hour, "acme", "order-7"))
			d := listing(t, s.Settings, rabbit.Queue{Name: "watership.places.orders", Messages: places})
			d.Timeout = time.Minute
			var err error
			d.store, err = s.OpenStore(t.Context())
			must(t, err)
			d.checkKeys(t.Context(), maxKeysRead)
			want(t, d.findings, verdict, "key", "")
		})
	}
}

// What was not read may stand.
func TestMoreKeysThanAreRead(t *testing.T) {
	s := newSite(t, orderedRoute)
	systemtest.Record(t, s.system, failedAgo(time.Minute, "zenith", "order-8"), failedAgo(time.Hour, "acme", "order-7"))
	d := listing(t, s.Settings)
	d.Timeout = time.Minute
	var err error
	d.store, err = s.OpenStore(t.Context())
	must(t, err)
	d.checkKeys(t.Context(), 1)
	want(t, d.findings, Warning, "only the first 1 waiting message was read, and keys of others may stand", "watership waiting")
	d.findings = nil
	d.checkKeys(t.Context(), 2)
	want(t, d.findings, Warning, `later messages of 1 key at queue orders wait`, "")
}

func TestKeysOfRoutesWithoutAnOrder(t *testing.T) {
	s := newSite(t, oneRoute)
	systemtest.Record(t, s.system, failedAgo(time.Hour, "acme", "order-7"))
	if list := of("keys", Run(t.Context(), s.Config)); len(list) > 0 {
		t.Errorf("%+v", list)
	}
}
