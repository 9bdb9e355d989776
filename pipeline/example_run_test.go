package pipeline_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// The example of the package, as it is: in a virtual host of its own, since it uses
// the names that everybody uses.
func TestExample(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		b.URL = virtualHost(t, b)
		t.Setenv("AMQP_URL", b.URL)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Example()
		}()
		rabbittest.Eventually(t, "the example consumes", func() bool { return consuming(b, "orders") })
		ch := b.Channel(t)
		if _, err := ch.QueueDeclare("invoices", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind("invoices", "invoice.#", "shop", false, nil); err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{`{"customer":"acme"}`, `no JSON`} {
			if err := ch.Publish("shop", "order.paid", false, false, amqp.Publishing{Body: []byte(body), MessageId: body}); err != nil {
				t.Fatal(err)
			}
		}
		made := b.Take(t, "invoices", 1)[0]
		if string(made.Body) != `{"to":"acme"}` || made.CorrelationId != `{"customer":"acme"}` {
			t.Errorf("%+v", made)
		}
		actions := ""
		for _, d := range b.Take(t, "watership.log", 3) {
			actions += d.RoutingKey + " "
		}
		for _, want := range []string{"retry_scheduled", "handled", "poisoned"} {
			if !strings.Contains(actions, want) {
				t.Errorf("no %s among %s", want, actions)
			}
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ended
	})
}

func consuming(b rabbittest.Broker, queue string) bool {
	conn, err := amqp.Dial(b.URL)
	if err != nil {
		return false
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return false
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return err == nil && q.Consumers == 1
}

func virtualHost(t *testing.T, b rabbittest.Broker) string {
	t.Helper()
	if b.Own {
		return b.URL
	}
	if b.ManagementURL == "" {
		t.Skip("no management API: WATERSHIP_TEST_MANAGEMENT_URLS is not set")
	}
	url, remove, err := rabbittest.NewVirtualHost(b.URL, b.ManagementURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	return url
}
