package cli

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// After a restart a process learns from the store which earlier messages have failed: messages of
// their keys wait until those are replayed or discarded, and others have the delays of their class.
func TestOrderingKnowsFailuresOfEarlierProcesses(t *testing.T) {
	t.Parallel()
	var paid atomic.Bool
	service := newService(t, func(p post, _ int) int {
		switch pay := strings.HasPrefix(string(p.body), "pay"); {
		case paid.Load():
			return http.StatusOK
		case pay:
			return http.StatusBadRequest
		}
		return http.StatusTooEarly
	})
	i := installEmbedded(t, service.url)
	i.configure(t, "timeout: 10s}}", "timeout: 10s, statuses: {425: {class: early}}}}\n    ordering: {class: early, key: '{headers.account}'}")
	publish := func(body, account string) {
		t.Helper()
		m := amqp.Publishing{MessageId: body, Body: []byte(body), DeliveryMode: amqp.Persistent, Headers: amqp.Table{"account": account}}
		if err := i.broker.Channel(t).Publish(i.exchange, "order", false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	count := func(query string) func() bool {
		return func() bool { return len(i.search(t, query)) == 1 }
	}
	first := i.serve(t)
	publish("pay 1", "a")
	publish("pay 2", "b")
	until(t, "the first failure", count(`message.id: "pay 1" and action: poisoned`))
	until(t, "the second failure", count(`message.id: "pay 2" and action: poisoned`))
	first.kill(t)
	i.serve(t)
	publish("ship 1", "a")
	publish("ship 2", "b")
	publish("ship 3", "nobody")
	until(t, "the message of another key to be given up", count(`message.id: "ship 3" and action: poisoned`))
	if found := i.search(t, `(message.id: "ship 1" or message.id: "ship 2") and action: poisoned`); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
	paid.Store(true)
	i.must(t, "failed", "retry", `message.id: "pay 1"`, "--yes")
	i.must(t, "failed", "discard", `message.id: "pay 2"`, "--reason", "paid by hand", "--yes")
	for _, id := range []string{"pay 1", "ship 1", "ship 2"} {
		until(t, id+" to be handled", count(`message.id: "`+id+`" and action: handled`))
	}
}
