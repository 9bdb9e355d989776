package cli

import (
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// TestExamplesThatReject: the consumers of docs/examples that only reject get the attempts of
// the policy, and then their message is poison.
func TestExamplesThatReject(t *testing.T) {
	t.Parallel() // most of it is waiting
	const celeryBody = `[[7], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]`
	celery := amqp.Publishing{
		ContentType: "application/json", ContentEncoding: "utf-8", CorrelationId: "task-7", Body: []byte(celeryBody),
		Headers: amqp.Table{"lang": "py", "task": "shop.ship", "id": "task-7", "root_id": "task-7", "argsrepr": "[7]", "kwargsrepr": "{}"},
	}
	order := amqp.Publishing{MessageId: "order-7", Body: []byte("7")}
	for name, example := range map[string]struct {
		fixture string // environment variable of its library
		command func(folder string) (environ, args []string)
		message amqp.Publishing
	}{
		"celery": {"WATERSHIP_TEST_CELERY", func(folder string) ([]string, []string) {
			return []string{"PYTHONPATH=" + folder}, []string{"python3", "../../docs/examples/celery_worker.py"}
		}, celery},
		"spring": {"WATERSHIP_TEST_SPRING", func(folder string) ([]string, []string) {
			return nil, []string{"java", "-cp", folder + "/*", "../../docs/examples/SpringConsumer.java"}
		}, order},
		"ruby": {"WATERSHIP_TEST_RUBY", func(ruby string) ([]string, []string) {
			return nil, []string{ruby, "../../docs/examples/consumer.rb"}
		}, order},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := os.Getenv(example.fixture)
			if folder == "" {
				servertest.Missing(t, example.fixture+` is not set (eval "$(scripts/fixtures env)")`)
			}
			i := servertest.Around(t, rabbittest.NewestServer(t)).Install(t, servertest.Nobody)
			i.Must(t, "setup")
			serving := i.Serve(t)
			queue := i.Prefix + "-" + name
			i.Broker.DeleteQueue(t, queue)
			environ, args := example.command(folder)
			output := servertest.StartProgram(t, environ, args[0], append(args[1:],
				strings.TrimSuffix(i.Broker.URL, "/"), queue, schemas.Topology{Prefix: i.Prefix}.Retry())...)
			servertest.Until(t, "the consumer to have declared its queue", func() bool {
				_, err := i.Broker.Channel(t).QueueDeclarePassive(queue, true, false, false, false, nil)
				return err == nil
			})
			servertest.Bind(t, i.Broker, queue, i.Exchange, "order.created")
			if err := i.Broker.Channel(t).Publish(i.Exchange, "order.created", false, false, example.message); err != nil {
				t.Fatal(err)
			}
			poisoned := i.Eventually(t, "action: poisoned", 1)[0]
			if poisoned.Queue != queue || poisoned.Attempt != 3 || string(poisoned.Envelope.Body) != string(example.message.Body) {
				t.Errorf("poisoned at queue %q, attempt %d: %s", poisoned.Queue, poisoned.Attempt, poisoned.Envelope.Body)
			}
			if got := strings.Count(output(), "ship "); got != 3 {
				t.Errorf("the consumer got the message %d times, want 3", got)
			}
			i.Must(t, "replay", "action: poisoned", "--to-failed-queue", "--yes")
			servertest.Until(t, "the replay to arrive", func() bool { return strings.Count(output(), "ship ") > 3 })
			serving.Stop(t)
		})
	}
}
