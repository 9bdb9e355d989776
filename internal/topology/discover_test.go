package topology

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// discovering is a topology that taps a direct exchange without keys, which is
// there and has a queue.
func discovering(t *testing.T, b rabbittest.Broker) (cfg Config, exchange, queue string) {
	t.Helper()
	if b.ManagementURL == "" {
		t.Skip("no management API")
	}
	discovery, err := NewDiscovery(b.ManagementURL, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg = named(t, b, Quorum)
	exchange, queue = rabbittest.Name(t), b.Queue(t, nil)
	cfg.Discovery, cfg.Tap = discovery, []Tap{{Exchange: exchange, Type: "direct"}}
	if err := b.Channel(t).ExchangeDeclare(exchange, "direct", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b.DeleteExchange(t, exchange)
	bindKey(t, b, queue, "first", exchange)
	return cfg, exchange, queue
}

func bindKey(t *testing.T, b rabbittest.Broker, queue, key, exchange string) {
	t.Helper()
	if err := b.Channel(t).QueueBind(queue, key, exchange, false, nil); err != nil {
		t.Fatal(err)
	}
}

func publishKey(t *testing.T, b rabbittest.Broker, exchange, key string) {
	t.Helper()
	if err := b.Channel(t).Publish(exchange, key, false, false, amqp.Publishing{Body: []byte(key)}); err != nil {
		t.Fatal(err)
	}
}

// A direct exchange without keys is tapped by those that are bound, and by those
// that are bound later; a key whose queue is gone stays.
func TestKeysAreDiscovered(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		cfg, exchange, queue := discovering(t, b)
		declareTwice(t, b, cfg)
		publishKey(t, b, exchange, "first")
		if d := b.Take(t, cfg.Index(), 1)[0]; d.Exchange != exchange || d.RoutingKey != "first" {
			t.Errorf("exchange %q, key %q", d.Exchange, d.RoutingKey)
		}
		reconcile(t, Reconciler{Conn: connection(t, b), Config: cfg, Every: 20 * time.Millisecond})
		bindKey(t, b, queue, "second", exchange)
		rabbittest.Eventually(t, "the new key to be tapped", func() bool {
			publishKey(t, b, exchange, "second")
			return b.Len(t, cfg.Index()) > 0
		})
		b.Take(t, cfg.Index(), b.Len(t, cfg.Index()))
		if err := b.Channel(t).QueueUnbind(queue, "first", exchange, nil); err != nil {
			t.Fatal(err)
		}
		publishKey(t, b, exchange, "first")
		b.Take(t, cfg.Index(), 1)
	})
}

// Keys that come and go do not add up for ever.
func TestStaleKeysAreBounded(t *testing.T) {
	b := rabbittest.Newest(t)
	cfg, exchange, _ := discovering(t, b)
	declareTwice(t, b, cfg)
	ch := b.Channel(t)
	for n := range maxStaleKeys + 1 {
		if err := ch.ExchangeBind(cfg.Topology.Tap(), fmt.Sprint("gone-", n), exchange, true, nil); err != nil {
			t.Fatal(err)
		}
	}
	reconciler := Reconciler{Conn: connection(t, b), Config: cfg}
	rabbittest.Eventually(t, "our own bindings to be forgotten", func() bool {
		if err := reconciler.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		others, ours, err := cfg.Discovery.keys(t.Context(), exchange, cfg.Topology.Tap())
		return err == nil && len(others) == 1 && len(ours) == 1 && ours[0] == "first"
	})
}

// Without the management API a direct exchange needs its keys.
func TestKeysCannotBeDiscovered(t *testing.T) {
	b := rabbittest.Newest(t)
	cfg, exchange, _ := discovering(t, b)
	cfg.Discovery = nil
	conn := connection(t, b)
	if err := Declare(t.Context(), conn, cfg); err == nil || !strings.Contains(err.Error(), "needs the routing keys") {
		t.Errorf("without discovery: %v", err)
	}
	away, err := NewDiscovery("http://guest:secret@127.0.0.1:1", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Discovery = away
	err = Declare(t.Context(), conn, cfg)
	for _, want := range []string{exchange, "set amqp.management_url, or the keys", "http://127.0.0.1:1"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if _, err := NewDiscovery("amqp://guest:secret@b", "/", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	// An exchange that a deploy has deleted is no error while messages flow.
	cfg.Discovery, err = NewDiscovery(b.ManagementURL, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Tap[0].Exchange += ".gone"
	reconciler := Reconciler{Conn: conn, Config: cfg}
	if err := reconciler.Repair(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestKeysAreDiscoveredWhenTheAPIIsBack: messages do not wait for the management
// API, and all else is declared without it.
func TestKeysAreDiscoveredWhenTheAPIIsBack(t *testing.T) {
	b := rabbittest.Newest(t)
	cfg, exchange, _ := discovering(t, b)
	there := cfg.Discovery
	away, err := NewDiscovery("http://guest:guest@127.0.0.1:1", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Discovery = away
	reconciler := Reconciler{Conn: connection(t, b), Config: cfg}
	if err := reconciler.Declare(t.Context()); err != nil {
		t.Fatalf("while the API is away: %v", err)
	}
	if err := reconciler.Repair(t.Context()); err == nil {
		t.Error("no error reports that the keys are unknown")
	}
	reconciler.Config.Discovery = there
	rabbittest.Eventually(t, "the tap to have the key", func() bool {
		if err := reconciler.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, ours, err := there.keys(t.Context(), exchange, cfg.Topology.Tap())
		return err == nil && len(ours) == 1 && ours[0] == "first"
	})
}

// A queue that RabbitMQ says to have no policy may have one: it tells a new policy seconds after it applies.
func TestDeadLetterExchangesOfAQueue(t *testing.T) {
	const told, policies = "told", "policies"
	for name, c := range map[string]struct {
		answers map[string]string
		want    []string
	}{
		"argument": {map[string]string{
			told: `{"name":"q","type":"quorum","arguments":{"x-dead-letter-exchange":"of.argument"},"effective_policy_definition":{}}`,
		}, []string{"of.argument"}},
		"a policy that is not told": {map[string]string{
			told:     `{"name":"q","type":"quorum","arguments":{},"effective_policy_definition":{}}`,
			policies: `[{"name":"p","pattern":"^q","apply-to":"queues","definition":{"dead-letter-exchange":"new"}}]`,
		}, []string{"new"}},
		"a policy that was replaced": {map[string]string{
			told:     `{"name":"q","type":"quorum","arguments":{},"effective_policy_definition":{"dead-letter-exchange":"old"}}`,
			policies: `[{"name":"p","pattern":"^q","apply-to":"queues","definition":{"dead-letter-exchange":"new"}}]`,
		}, []string{"old", "new"}},
		"policies of others": {map[string]string{
			told: `{"name":"q","type":"quorum","arguments":{}}`,
			policies: `[{"name":"p","pattern":"^r","apply-to":"queues","definition":{"dead-letter-exchange":"of.r"}},
				{"name":"c","pattern":"","apply-to":"classic_queues","definition":{"dead-letter-exchange":"of.classic"}}]`,
		}, nil},
		"a pattern that only RabbitMQ can read": {map[string]string{
			told:     `{"name":"q","type":"quorum","arguments":{}}`,
			policies: `[{"name":"p","pattern":"(?|q)","apply-to":"queues","definition":{"dead-letter-exchange":"new"}}]`,
		}, []string{"new"}},
	} {
		t.Run(name, func(t *testing.T) {
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := told
				if strings.HasPrefix(r.URL.Path, "/api/policies/") {
					answer = policies
				}
				_, _ = w.Write([]byte(c.answers[answer]))
			}))
			defer api.Close()
			d, err := NewDiscovery(api.URL, "/", nil)
			if err != nil {
				t.Fatal(err)
			}
			if names, err := d.DeadLetterExchanges(t.Context(), "q"); err != nil || !slices.Equal(names, c.want) {
				t.Errorf("%q, %v", names, err)
			}
		})
	}
}
