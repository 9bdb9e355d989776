package servertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// Installation is one Watership on real servers, with its own names.
type Installation struct {
	Broker   rabbittest.Broker
	Binary   string
	Config   string
	Prefix   string
	Stream   string
	Store    string // store.url
	Exchange string
	Queue    string
	Listen   string
	Environ  []string // of the commands; nil: ours
	Server   []string // environment of the commands that go through a server; nil: none do
}

// settingsOf is the configuration file of an installation, but for its servers.
const settingsOf = `
topology: {prefix: %s}
source: test
tap: {exchanges: [{name: %s, type: topic}]}
routes:
  - queue: %s
    bind: [{exchange: %s, key: "#"}]
    handler: {http: {url: %q, timeout: 10s}}
    concurrency: 32
retry: {policies: {default: {delays: [100ms, 300ms]}}}
index: {batch: {wait: 50ms}}
http: {listen: %q}
`

// Install makes an installation with a broker, and with the store that Around has for it.
func Install(t *testing.T, broker rabbittest.Broker, handler string) *Installation {
	t.Helper()
	return Around(t, broker).Install(t, handler)
}

// OnServers writes the configuration for servers that run already.
func (i *Installation) OnServers(t *testing.T, handler, store string) {
	t.Helper()
	i.Store = store
	i.write(t, handler, fmt.Sprintf("amqp: {url: %q, management_url: %q}\nstore: {url: %q, stream: %s}",
		i.Broker.URL, i.Broker.ManagementURL, store, i.Stream))
}

// NewInstallation makes an installation without a configuration.
func NewInstallation(t *testing.T, broker rabbittest.Broker) *Installation {
	t.Helper()
	path, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToLower("t" + rand.Text()[:8])
	return &Installation{
		Broker: broker, Binary: path, Config: filepath.Join(t.TempDir(), "watership.yaml"),
		Prefix: name, Stream: name, Exchange: name + "-github", Queue: name + "-ci", Listen: rabbittest.FreeAddress(t),
	}
}

func (i *Installation) write(t *testing.T, handler, servers string) {
	t.Helper()
	text := servers + fmt.Sprintf(settingsOf, i.Prefix, i.Exchange, i.Queue, i.Exchange, handler, i.Listen)
	if err := os.WriteFile(i.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Rewrite changes the configuration file.
func (i *Installation) Rewrite(t *testing.T, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(i.Config)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s: no %q in\n%s", err, old, text)
	}
	if err := os.WriteFile(i.Config, []byte(strings.ReplaceAll(string(text), old, replacement)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Configure replaces parts of the configuration, each by the one after it.
func (i *Installation) Configure(t *testing.T, pairs ...string) {
	t.Helper()
	text, err := os.ReadFile(i.Config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(pairs...).Replace(string(text))
	if err := os.WriteFile(i.Config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// WithRoles starts serve with some roles and more settings.
func (i *Installation) WithRoles(t *testing.T, roles string, settings ...string) (one *Installation, p *Process) {
	t.Helper()
	process := *i
	process.Listen = rabbittest.FreeAddress(t)
	process.Environ = append(os.Environ(), "WATERSHIP_ROLES="+roles, "WATERSHIP_HTTP_LISTEN="+process.Listen)
	process.Environ = append(process.Environ, settings...)
	return &process, process.Serve(t)
}

// Remove deletes the queues and exchanges of the installation.
func (i *Installation) Remove(t *testing.T) {
	conn, err := amqp.Dial(i.Broker.URL)
	if err != nil {
		t.Logf("queues of %s stay: %v", i.Prefix, err)
		return
	}
	defer conn.Close()
	management, err := rabbit.NewManagement(i.Broker.ManagementURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := management.Queues(context.Background(), "/")
	if err != nil {
		t.Logf("queues of %s stay: %v", i.Prefix, err)
	}
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range queues {
		if strings.HasPrefix(queue.Name, i.Prefix) {
			_, _ = channel.QueueDelete(queue.Name, false, false, false)
		}
	}
	for _, exchange := range append(schemas.Topology{Prefix: i.Prefix}.Exchanges(), i.Exchange) {
		_ = channel.ExchangeDelete(exchange, false, false)
	}
}

// Publisher returns a publisher that does not give up while a broker is down.
func (i *Installation) Publisher(t *testing.T) *rabbit.Publisher {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: i.Broker.URL, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	t.Cleanup(func() { _ = publisher.Close() })
	return publisher
}

// Send publishes a message, and waits until the broker has it.
func (i *Installation) Send(t *testing.T, exchange, key string, p amqp.Publishing) {
	t.Helper()
	if err := i.Publisher(t).Publish(t.Context(), rabbit.Message{Exchange: exchange, RoutingKey: key, Publishing: p}); err != nil {
		t.Fatal(err)
	}
}

// AwaitLen waits until a queue has n messages.
func (i *Installation) AwaitLen(t *testing.T, queue string, n int) {
	t.Helper()
	Until(t, "messages in queue "+queue, func() bool { return i.Broker.Len(t, queue) == n })
}

// Bind binds a queue to an exchange.
func Bind(t *testing.T, broker rabbittest.Broker, queue, exchange, key string) {
	t.Helper()
	if err := broker.Channel(t).QueueBind(queue, key, exchange, false, nil); err != nil {
		t.Fatal(err)
	}
}

// Policy sets a policy for names of this test alone, until it ends.
func Policy(t *testing.T, broker rabbittest.Broker, name, definition string) {
	t.Helper()
	path := "/api/policies/" + url.PathEscape(broker.VHostName(t)) + "/" + name
	broker.Manage(t, http.MethodPut, path, definition)
	t.Cleanup(func() { broker.Manage(t, http.MethodDelete, path, "") })
}
