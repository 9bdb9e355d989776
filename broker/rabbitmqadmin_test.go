package broker_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// RabbitMQ's own command for its management API, as the test servers before 4.3 hand it
// out, lists, declares, publishes, gets, purges and deletes.
func TestRabbitmqadmin(t *testing.T) {
	for _, server := range servers(t, "WATERSHIP_TEST_MANAGEMENT_URLS") {
		t.Run(hostOf(server), func(t *testing.T) {
			b := start(t, broker.Config{})
			conn := connect(t, b)
			ch := channel(t, conn)
			declare(t, ch, "consumed", nil)
			if _, err := ch.Consume("consumed", "tag", false, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			admin := rabbitmqadmin(t, server, b.StartManagement(t))
			for _, step := range []struct{ command, want string }{
				{"list vhosts", "/"},
				{"list nodes", "watership@embedded"},
				{"list users", "guest"},
				{"list permissions", ".*"},
				{"list exchanges", "amq.headers"},
				{"list connections name user channels", "guest"},
				{"list channels", "(1)"},
				{"list consumers", "tag"},
				{"list policies", "No items"},
				{`declare policy name=p pattern=^q$ definition={"max-length":5} apply-to=queues`, "policy declared"},
				{"list policies name pattern", "^q$"},
				{"delete policy name=p", "policy deleted"},
				{"list parameters", "No items"},
				{"show overview", "4.3.6"},
				{"declare exchange name=x type=topic", "exchange declared"},
				{"declare queue name=q queue_type=quorum", "queue declared"},
				{"declare binding source=x destination=q routing_key=a.#", "binding declared"},
				{"list bindings source destination routing_key", "a.#"},
				{"list queues name type", "quorum"},
				{"publish exchange=x routing_key=a.b payload=hello", "Message published"},
				{"publish exchange=x routing_key=b payload=hello", "NOT routed"},
				{"get queue=q", "hello"},
				{"get queue=q ackmode=ack_requeue_false", "hello"},
				{"get queue=q", "No items"},
				{"purge queue name=q", "queue purged"},
				{"delete binding source=x destination_type=queue destination=q properties_key=a.%23", "binding deleted"},
				{"delete queue name=q", "queue deleted"},
				{"delete exchange name=x", "exchange deleted"},
				{"list queues name", "consumed"},
			} {
				if out := admin(strings.Fields(step.command)...); !strings.Contains(out, step.want) {
					t.Errorf("%s: %s\nwant %s", step.command, out, step.want)
				}
			}
			closed := conn.NotifyClose(make(chan *amqp.Error, 1))
			name := strings.TrimSpace(admin("--format=tsv", "list", "connections", "name"))
			admin("close", "connection", "name="+strings.TrimSpace(strings.TrimPrefix(name, "name")))
			if why := receive(t, closed); why.Code != amqp.ConnectionForced {
				t.Errorf("closed with %v", why)
			}
		})
	}
}

// rabbitmqadmin fetches the command from a server, and runs it on an API.
func rabbitmqadmin(t *testing.T, server, api string) func(arguments ...string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		unavailable(t, "python3 is not installed")
	}
	at, err := url.Parse(api)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "rabbitmqadmin")
	text, found := download(t, strings.TrimSuffix(server, "/")+"/cli/rabbitmqadmin")
	if !found {
		t.Skip("RabbitMQ has no rabbitmqadmin since 4.3")
	}
	if err := os.WriteFile(script, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(arguments ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "python3", append([]string{script, "--host", at.Hostname(), "--port", at.Port()}, arguments...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rabbitmqadmin %v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
}

func download(t *testing.T, from string) (text []byte, found bool) {
	t.Helper()
	answer, err := http.Get(from)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
		t.Fatalf("%d %v", answer.StatusCode, err)
	}
	return body, answer.StatusCode == http.StatusOK
}
