package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// clientStep is an event that a report led to, and the delivery before it.
type clientStep struct {
	action   schemas.Action
	attempt  int
	delay    time.Duration
	failure  schemas.Failure // Stack is "there", if there is one
	progress string          // of the delivery
}

// clientCase is a message whose body says what its consumer does at each delivery.
type clientCase struct {
	steps []map[string]any
	want  []clientStep
}

const unexpected = "exception" // the outcome of a handler that fails unexpectedly

func clientCases(exception string) map[string]clientCase {
	type told = map[string]any
	failed := func(text, errorType, class string) schemas.Failure {
		return schemas.Failure{Message: text, Type: errorType, Class: class}
	}
	const first, second = 100 * time.Millisecond, 300 * time.Millisecond
	broken := failed("unexpected", exception, "default")
	broken.Stack = "there"
	again := func(attempt int, delay time.Duration, why schemas.Failure) clientStep {
		return clientStep{action: schemas.RetryScheduled, attempt: attempt, delay: delay, failure: why}
	}
	handled := func(attempt int) clientStep { return clientStep{action: schemas.Handled, attempt: attempt} }
	resumed := clientStep{action: schemas.Handled, attempt: 2, progress: "page 7"}
	return map[string]clientCase{
		"handled": {[]told{{"outcome": "handled"}}, []clientStep{handled(1)}},
		"retry": {
			[]told{{"outcome": "retry", "error": "no stock", "error-type": "Stock"}, {"outcome": "retry", "error": "no stock", "error-type": "Stock"}, {"outcome": "handled"}},
			[]clientStep{again(1, first, failed("no stock", "Stock", "default")), again(2, second, failed("no stock", "Stock", "default")), handled(3)},
		},
		"class": {
			[]told{{"outcome": "retry", "error": "early", "error-type": "Early", "class": "ordering"}, {"outcome": "handled"}},
			[]clientStep{again(1, 200*time.Millisecond, failed("early", "Early", "ordering")), handled(2)},
		},
		"long delay": {
			[]told{{"outcome": "retry", "error": "later", "error-type": "Later", "delay": 1500}, {"outcome": "handled"}},
			[]clientStep{again(1, 1500*time.Millisecond, failed("later", "Later", "default")), handled(2)},
		},
		"short delay": {
			[]told{{"outcome": "retry", "error": "later", "error-type": "Later", "delay": 150}, {"outcome": "handled"}},
			[]clientStep{again(1, 150*time.Millisecond, failed("later", "Later", "default")), handled(2)},
		},
		"progress": {
			[]told{{"outcome": "retry", "error": "stopped", "error-type": "Stop", "progress": "page 7"}, {"outcome": "handled"}},
			[]clientStep{again(1, first, failed("stopped", "Stop", "default")), resumed},
		},
		"poison": {
			[]told{{"outcome": "poison", "error": "no such product", "error-type": "Invalid"}, {"outcome": "handled"}},
			[]clientStep{{action: schemas.Poisoned, attempt: 1, failure: failed("no such product", "Invalid", "default")}, handled(1)}, // after its replay
		},
		"unavailable": {
			[]told{{"outcome": "unavailable", "error": "no database", "error-type": "Gone"}, {"outcome": "handled"}},
			[]clientStep{again(0, time.Second, failed("no database", "Gone", "default")), handled(1)},
		},
		"exception": {[]told{{"outcome": unexpected}, {"outcome": "handled"}}, []clientStep{again(1, first, broken), handled(2)}},
	}
}

// consumerProgram is a program that consumes a queue with an example of docs/examples.
type consumerProgram struct {
	exception string // the type of an unexpected failure
	command   func(t *testing.T) *exec.Cmd
}

const examples = "../../docs/examples/"

func clients() map[string]consumerProgram {
	fixture := func(t *testing.T, variable string) string {
		t.Helper()
		value := os.Getenv(variable)
		if value == "" {
			servertest.Missing(t, variable+` is not set (eval "$(scripts/fixtures env)")`)
		}
		return value
	}
	program := func(environment []string, name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), environment...)
		return cmd
	}
	return map[string]consumerProgram{
		"Python": {"ArithmeticError", func(t *testing.T) *exec.Cmd {
			path := fixture(t, "WATERSHIP_TEST_PIKA") + string(os.PathListSeparator) + examples
			return program([]string{"PYTHONPATH=" + path, "PYTHONDONTWRITEBYTECODE=1"}, "python3", "testdata/clients/client.py")
		}},
		"Node": {"RangeError", func(t *testing.T) *exec.Cmd {
			client, err := filepath.Abs(examples + "watership.js")
			if err != nil {
				t.Fatal(err)
			}
			return program([]string{"NODE_PATH=" + fixture(t, "WATERSHIP_TEST_AMQPLIB"), "WATERSHIP_CLIENT=" + client}, "node", "testdata/clients/client.js")
		}},
		"PHP": {"LogicException", func(t *testing.T) *exec.Cmd {
			return program([]string{"WATERSHIP_CLIENT=" + examples + "watership.php"}, fixture(t, "WATERSHIP_TEST_PHP"), "testdata/clients/client.php")
		}},
		"Ruby": {"ZeroDivisionError", func(t *testing.T) *exec.Cmd {
			client, err := filepath.Abs(examples + "watership.rb")
			if err != nil {
				t.Fatal(err)
			}
			return program([]string{"WATERSHIP_CLIENT=" + client}, fixture(t, "WATERSHIP_TEST_RUBY"), "testdata/clients/client.rb")
		}},
		"Java": {"ArithmeticException", func(t *testing.T) *exec.Cmd {
			jars := filepath.Join(fixture(t, "WATERSHIP_TEST_JAVA"), "*")
			classes, err := javaClasses()
			if err != nil {
				t.Fatal(err)
			}
			return program(nil, "java", "-XX:TieredStopAtLevel=1", "-cp", jars+string(os.PathListSeparator)+classes, "Client")
		}},
	}
}

// javaClasses is the folder of the compiled Java client, beside the command.
var javaClasses = sync.OnceValues(func() (string, error) {
	path, err := servertest.Binary()
	if err != nil {
		return "", err
	}
	classes, jars := filepath.Join(filepath.Dir(path), "classes"), filepath.Join(os.Getenv("WATERSHIP_TEST_JAVA"), "*")
	compile := exec.Command("javac", "-cp", jars, "-d", classes, examples+"Watership.java", "testdata/clients/Client.java")
	if out, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("javac: %w\n%s", err, out)
	}
	return classes, nil
})

// clientDelivery is a delivery as a client saw it.
type clientDelivery struct {
	MessageID  string `json:"message_id"`
	Attempt    int    `json:"attempt"`
	Progress   string `json:"progress"`
	RoutingKey string `json:"routing_key"`
	Tenant     string `json:"tenant"`
}

// runningClient collects the deliveries that a client prints.
type runningClient struct {
	mu   sync.Mutex // guards seen
	seen []clientDelivery
}

func (c *runningClient) deliveries() []clientDelivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

func startClient(t *testing.T, cmd *exec.Cmd, url, queue, exchange string) *runningClient {
	t.Helper()
	if strings.HasSuffix(url, "/") { // which Java reads as the virtual host ""
		url += "%2F"
	}
	cmd.Args = append(cmd.Args, url, queue, exchange)
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &runningClient{}
	servertest.ReadJSONLines(t, cmd, bufio.NewScanner(out), func(one clientDelivery) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, one)
	})
	return c
}

// Consumers in five languages say the same words, and get the same retries, delays,
// progress and histories.
func TestClientsReport(t *testing.T) {
	servertest.OnNewest(t, func(t *testing.T, p servertest.Parts) {
		i := p.Install(t, servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK }).URL)
		i.Rewrite(t, "retry: {policies: {default: {delays: [100ms, 300ms]}}}",
			"retry: {policies: {default: {delays: [100ms, 300ms], classes: {ordering: {delays: [200ms]}}}}}\nfingerprint: {fold_types: true}")
		serving := i.Serve(t)
		t.Run("languages", func(t *testing.T) {
			for language, c := range clients() {
				t.Run(language, func(t *testing.T) {
					t.Parallel()
					checkClient(t, i, c, i.Prefix+"-"+language)
				})
			}
		})
		serving.Stop(t)
	})
}

func checkClient(t *testing.T, i *servertest.Installation, c consumerProgram, queue string) {
	t.Helper()
	channel := i.Broker.Channel(t)
	if _, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	i.Broker.DeleteQueue(t, queue)
	key := strings.ToLower(queue)
	servertest.Bind(t, i.Broker, queue, i.Exchange, key)
	running := startClient(t, c.command(t), i.Broker.URL, queue, schemas.Topology{Prefix: i.Prefix}.Report())

	cases, events := clientCases(c.exception), 0
	publisher := i.Publisher(t)
	for _, name := range []string{"long delay", "short delay", "handled", "retry", "class", "progress", "poison", "unavailable", "exception"} {
		body, err := json.Marshal(cases[name].steps)
		if err != nil {
			t.Fatal(err)
		}
		events += len(cases[name].want)
		forged := amqp.Table{"outcome": "poison", "progress": "forged", "delay": int32(1), "class": "forged"}
		e := schemas.Envelope{
			Exchange: i.Exchange, RoutingKey: key, Body: body,
			Properties: schemas.Properties{MessageID: name, DeliveryMode: amqp.Persistent, Expiration: "600000", Type: "order", ContentType: "application/json", Timestamp: time.Unix(1700000000, 0)},
			Headers: amqp.Table{
				"tenant": "acme", "watership-report": forged, "CC": []any{"nowhere"}, "n": int64(7), "yes": true,
				"list": []any{"one", "two"}, "table": amqp.Table{"n": int16(5)}, "at": time.Unix(1700000000, 0),
			},
		}
		if err := publisher.Publish(t.Context(), rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}); err != nil {
			t.Fatal(err)
		}
	}
	ofQueue := "watership.queue: " + queue
	poison := ofQueue + ` and message.id: poison and action: poisoned`
	i.Eventually(t, poison, 1)
	i.Must(t, "replay", poison, "--to-failed-queue", "--yes")
	reported := ofQueue + " and not action: replayed"
	found := i.Eventually(t, reported, events)
	slices.SortFunc(found, func(a, b schemas.Event) int { return int(a.Sequence - b.Sequence) })

	seen, next, got := running.deliveries(), map[string]int{}, map[string][]clientStep{}
	fingerprints := map[string]string{}
	for _, e := range i.Search(t, "action: published and routing_key: "+key) {
		fingerprints[e.Envelope.Properties.MessageID] = e.Fingerprint
	}
	for _, e := range found {
		name := e.Envelope.Properties.MessageID
		if e.Fingerprint != fingerprints[name] {
			t.Errorf("%s: the event %s has the fingerprint %s, published was %s", name, e.Action, e.Fingerprint, fingerprints[name])
		}
		if e.Failure.Stack != "" {
			e.Failure.Stack = "there"
		}
		step := clientStep{action: e.Action, attempt: e.Attempt, delay: e.Delay, failure: e.Failure}
		n := 0
		for _, d := range seen {
			if d.MessageID != name || d.RoutingKey != key || d.Tenant != "acme" {
				continue
			}
			if n == next[name] {
				step.progress = d.Progress
			}
			n++
		}
		next[name]++
		got[name] = append(got[name], step)
	}
	for name, test := range cases {
		if diff := cmp.Diff(test.want, got[name], cmp.AllowUnexported(clientStep{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	last := func(name string) int {
		return slices.IndexFunc(seen, func(d clientDelivery) bool { return d.MessageID == name && d.Attempt == 2 })
	}
	if short, long := last("short delay"), last("long delay"); short < 0 || long < short {
		t.Errorf("the second attempts are deliveries %d (short delay) and %d (long delay)", short, long)
	}
	if left := i.Must(t, "failed", ofQueue); strings.Contains(left, queue) {
		t.Errorf("failures that were handled since are listed:\n%s", left)
	}
}

// A client does not acknowledge a message whose report no queue takes, and the message stays
// in its queue.
func TestClientsKeepWhatIsNotReported(t *testing.T) {
	b := rabbittest.Newest(t)
	for language, c := range clients() {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			queue, exchange := b.Queue(t, nil), rabbittest.Name(t)
			channel := b.Channel(t)
			if err := channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			b.DeleteExchange(t, exchange)
			err := channel.Publish("", queue, false, false, amqp.Publishing{
				MessageId: "m", Headers: amqp.Table{"tenant": "acme"}, Body: []byte(`[{"outcome":"handled"},{"outcome":"handled"}]`),
			})
			if err != nil {
				t.Fatal(err)
			}
			cmd := c.command(t)
			cmd.Stderr = new(strings.Builder)
			running := startClient(t, cmd, b.URL, queue, exchange)
			servertest.Until(t, "the delivery", func() bool { return len(running.deliveries()) > 0 })
			servertest.Until(t, "the message to be in its queue again", func() bool { return b.Len(t, queue) == 1 })
		})
	}
}
