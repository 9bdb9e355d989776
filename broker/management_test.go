package broker_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/rabbit"
)

func TestManagement(t *testing.T) {
	b := start(t, broker.Config{ClusterName: "shop"})
	address := b.StartManagement(t)
	m, err := rabbit.NewManagement(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	ch := channel(t, connect(t, b))
	declare(t, ch, "a queue/of ours", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(7)})
	if err := ch.ExchangeDeclare("x", "headers", true, false, true, false, amqp.Table{"alternate-exchange": "amq.fanout"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("a queue/of ours", "k", "x", false, amqp.Table{"x-match": "all", "n": int32(3)}); err != nil {
		t.Fatal(err)
	}
	publish(t, ch, "a queue/of ours", amqp.Publishing{})
	if n := length(t, ch, "a queue/of ours"); n != 1 {
		t.Fatalf("%d messages", n)
	}

	overview, err := m.Overview(t.Context())
	if err != nil || overview.ClusterName != "shop" || overview.Version != broker.RabbitMQ43.Version() {
		t.Errorf("overview: %+v, %v", overview, err)
	}
	login, err := m.WhoAmI(t.Context())
	if err != nil || login.Name != "guest" || len(login.Tags) != 1 {
		t.Errorf("whoami: %+v, %v", login, err)
	}
	q, err := m.Queue(t.Context(), "/", "a queue/of ours")
	if err != nil || q.Type != "quorum" || !q.Durable || q.Arguments["x-delivery-limit"] != 7.0 || q.Messages != 1 || q.Policy != "" {
		t.Errorf("queue: %+v, %v", q, err)
	}
	x, err := m.Exchange(t.Context(), "/", "x")
	if err != nil || x.Type != "headers" || !x.Internal || x.Arguments["alternate-exchange"] != "amq.fanout" {
		t.Errorf("exchange: %+v, %v", x, err)
	}
	bindings, err := m.Bindings(t.Context(), "/", "x")
	if err != nil || len(bindings) != 1 || bindings[0].Destination != "a queue/of ours" || bindings[0].Arguments["n"] != 3.0 {
		t.Errorf("bindings: %+v, %v", bindings, err)
	}
	if queues, err := m.Queues(t.Context(), "/"); err != nil || len(queues) != 1 {
		t.Errorf("queues: %+v, %v", queues, err)
	}
	declare(t, ch, "stuck", amqp.Table{
		"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone",
	})
	publish(t, ch, "stuck", amqp.Publishing{Expiration: "0"})
	if n := length(t, ch, "stuck"); n != 0 {
		t.Fatalf("%d messages", n)
	}
	if waiting, err := m.DeadLettering(t.Context(), "/"); err != nil || len(waiting) != 1 || waiting["stuck"] != 1 {
		t.Errorf("on their way to where they cannot go: %v, %v", waiting, err)
	}
	for _, missing := range []error{
		second(m.Queue(t.Context(), "/", "none")), second(m.Exchange(t.Context(), "/", "none")),
		second(m.Queues(t.Context(), "none")),
	} {
		if !errors.Is(missing, rabbit.ErrNotFound) {
			t.Errorf("what is missing: %v", missing)
		}
	}
	for _, login := range []string{"", "guest:wrong@", "guest@", "nobody:guest@"} {
		stranger, err := rabbit.NewManagement(strings.Replace(address, "guest:guest@", login, 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stranger.WhoAmI(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("as %q: %v", login, err)
		}
	}
}

// A page of another site, whose host a browser takes for this machine's, is refused.
func TestManagementOfAnotherHost(t *testing.T) {
	address := start(t, broker.Config{}).StartManagement(t)
	for host, status := range map[string]int{"": 200, "localhost:15672": 200, "[::1]:15672": 200, "evil.example": 403, "evil.example:80": 403} {
		request, err := http.NewRequest(http.MethodGet, address+"/api/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("host %q: %d, want %d", host, answer.StatusCode, status)
		}
	}
}

func second[T any](_ T, err error) error { return err }
