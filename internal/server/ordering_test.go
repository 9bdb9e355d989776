package server_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
)

// After a restart a process learns from the store which earlier messages have failed: messages of
// their keys wait until those are replayed or discarded, and others have the delays of their class.
func TestOrderingKnowsFailuresOfEarlierProcesses(t *testing.T) {
	t.Parallel()
	var paid atomic.Bool
	service := servertest.NewService(t, func(p servertest.Post, _ int) int {
		switch pay := strings.HasPrefix(string(p.Body), "pay"); {
		case paid.Load():
			return http.StatusOK
		case pay:
			return http.StatusBadRequest
		}
		return http.StatusTooEarly
	})
	i := servertest.InstallEmbedded(t, service.URL)
	i.Configure(t, "timeout: 10s}}", "timeout: 10s, statuses: {425: {class: early}}}}\n    ordering: {class: early, key: '{headers.account}'}")
	publish := func(body, account string) {
		t.Helper()
		m := amqp.Publishing{MessageId: body, Body: []byte(body), DeliveryMode: amqp.Persistent, Headers: amqp.Table{"account": account}}
		if err := i.Broker.Channel(t).Publish(i.Exchange, "order", false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	count := func(query string) func() bool {
		return func() bool { return len(i.Search(t, query)) == 1 }
	}
	first := i.Serve(t)
	publish("pay 1", "a")
	publish("pay 2", "b")
	servertest.Until(t, "the first failure", count(`message.id: "pay 1" and action: poisoned`))
	servertest.Until(t, "the second failure", count(`message.id: "pay 2" and action: poisoned`))
	first.Kill(t)
	i.Serve(t)
	publish("ship 1", "a")
	publish("ship 2", "b")
	publish("ship 3", "nobody")
	servertest.Until(t, "the message of another key to be given up", count(`message.id: "ship 3" and action: poisoned`))
	if found := i.Search(t, `(message.id: "ship 1" or message.id: "ship 2") and action: poisoned`); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
	paid.Store(true)
	i.Must(t, "failed", "retry", `message.id: "pay 1"`, "--yes")
	i.Must(t, "failed", "discard", `message.id: "pay 2"`, "--reason", "paid by hand", "--yes")
	for _, id := range []string{"pay 1", "ship 1", "ship 2"} {
		servertest.Until(t, id+" to be handled", count(`message.id: "`+id+`" and action: handled`))
	}
}
