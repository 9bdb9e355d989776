package pipeline_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// The README's example, as it is: in a virtual host of its own, since it uses
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
			if err := ch.Publish("shop", "order.paid", false, false, amqp091.Publishing{Body: []byte(body), MessageId: body}); err != nil {
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
	conn, err := amqp091.Dial(b.URL)
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

// virtualHost makes one that ends with the test, with all that is in it, and
// returns its URL.
func virtualHost(t *testing.T, b rabbittest.Broker) string {
	t.Helper()
	if b.ManagementURL == "" {
		t.Skip("no management API: WATERSHIP_TEST_MANAGEMENT_URLS is not set")
	}
	name := rabbittest.Name(t)
	u, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	manage(t, b, http.MethodPut, "/api/vhosts/"+name, "{}")
	t.Cleanup(func() { manage(t, b, http.MethodDelete, "/api/vhosts/"+name, "") })
	manage(t, b, http.MethodPut, fmt.Sprintf("/api/permissions/%s/%s", name, u.User.Username()),
		`{"configure":".*","write":".*","read":".*"}`)
	u.Path = "/" + name
	return u.String()
}

func manage(t *testing.T, b rabbittest.Broker, method, path, body string) {
	t.Helper()
	request, err := http.NewRequest(method, b.ManagementURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s", method, path, response.Status)
	}
}
