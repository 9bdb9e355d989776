package server_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// A message to the default exchange has no `published` event. The events of its handling
// have its body, so that it can be found and replayed.
func TestMessagesToTheDefaultExchange(t *testing.T) {
	servertest.OnEvery(t, func(t *testing.T, p servertest.Parts) {
		service := servertest.NewService(t, func(p servertest.Post, _ int) int {
			if p.ID == "bad" {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		i := p.Install(t, service.URL)
		i.Serve(t)
		channel := p.Broker.Channel(t)
		for _, message := range []struct{ exchange, key, id string }{
			{"", i.Queue, "good"}, {"", i.Queue, "bad"}, {i.Exchange, "k", "tapped"},
		} {
			err := channel.Publish(message.exchange, message.key, false, false, amqp.Publishing{MessageId: message.id, Body: []byte("body of " + message.id)})
			if err != nil {
				t.Fatal(err)
			}
		}
		i.Eventually(t, `action: poisoned and message.id: bad`, 1)
		i.Eventually(t, `action: handled and message.id: tapped`, 1)
		i.Eventually(t, `action: handled and message.id: good`, 1)
		i.Eventually(t, `action: published`, 1)
		events := i.Search(t, `not messaging.destination.name: * and messaging.message.id: *`)
		actions := map[schemas.Action]int{}
		for _, event := range events {
			actions[event.Action]++
			if e := event.Envelope; e.Exchange != "" || e.RoutingKey != i.Queue || string(e.Body) != "body of "+e.Properties.MessageID {
				t.Errorf("%s of %s to %q %q has the body %q", event.Action, e.Properties.MessageID, e.Exchange, e.RoutingKey, e.Body)
			}
		}
		if len(events) != 4 || actions[schemas.Handled] != 1 || actions[schemas.RetryScheduled] != 2 || actions[schemas.Poisoned] != 1 {
			t.Errorf("the events are %v, want handled, two of retry_scheduled, and poisoned", actions)
		}

		service.Mend()
		i.Must(t, "replay", "action: poisoned", "--yes")
		i.Eventually(t, `action: handled and message.id: bad`, 1)
	})
}

// A policy of docs/rabbitmq.md moves messages to the default exchange on to a tapped
// exchange, and their consumer has another queue. They are recorded, retried and
// replayed as any message of that exchange.
func TestDefaultExchangeTappedByAPolicy(t *testing.T) {
	rabbittest.EachServer(t, func(t *testing.T, broker rabbittest.Broker) {
		t.Parallel()
		service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusInternalServerError })
		i := servertest.Install(t, broker, service.URL)
		inbox := i.Prefix + "-orders"
		channel := broker.Channel(t)
		if _, err := channel.QueueDeclare(inbox, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		definition := strings.Replace(documentedPolicy(t), `"inbox"`, `"`+i.Exchange+`"`, 1)
		servertest.Policy(t, broker, inbox, `{"pattern":"^`+inbox+`$","definition":`+definition+`,"apply-to":"queues"}`)
		management, err := rabbit.NewManagement(broker.ManagementURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		servertest.Until(t, "the policy of the queue", func() bool { // which has no effect on earlier messages
			queue, err := management.Queue(t.Context(), "/", inbox)
			return err == nil && queue.Policy == inbox
		})
		i.Serve(t)
		sent := amqp.Publishing{MessageId: "m", Headers: amqp.Table{"tenant": "acme"}, Body: []byte("x"), DeliveryMode: amqp.Persistent}
		if err := channel.Publish("", inbox, false, false, sent); err != nil {
			t.Fatal(err)
		}
		published := i.Eventually(t, "action: published", 1)[0].Envelope
		if published.Exchange != i.Exchange || published.RoutingKey != inbox || published.Headers["tenant"] != "acme" || string(published.Body) != "x" {
			t.Errorf("recorded as %+v", published)
		}
		i.Eventually(t, "action: retry_scheduled", 2)
		i.Eventually(t, "action: poisoned", 1)
		service.Mend()
		i.Must(t, "replay", "action: poisoned", "--yes")
		i.Eventually(t, "action: handled", 1)
		i.Eventually(t, "action: published", 2)
	})
}

// documentedPolicy returns the definition of the policy that docs/rabbitmq.md has for the
// queue orders.
func documentedPolicy(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/rabbitmq.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^rabbitmqctl set_policy --vhost / orders-inbox '\^orders\$' '(.*)' --apply-to queues$`).FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/rabbitmq.md has no policy orders-inbox")
	}
	return string(found[1])
}
