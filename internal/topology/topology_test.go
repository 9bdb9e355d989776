package topology

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// named is a configuration with names of its own, cleaned up after the test.
func named(t *testing.T, b rabbittest.Broker, kind QueueType) Config {
	cfg := Config{
		Topology:  schemas.Topology{Prefix: rabbittest.Name(t)},
		QueueType: kind,
		Delays:    []time.Duration{50 * time.Millisecond, 24 * time.Hour},
	}
	for _, e := range cfg.exchanges() {
		b.DeleteExchange(t, e.name)
	}
	for _, q := range cfg.queues() {
		b.DeleteQueue(t, q.name)
	}
	return cfg
}

func declareTwice(t *testing.T, b rabbittest.Broker, cfg Config) {
	t.Helper()
	conn := connection(t, b)
	for range 2 {
		if err := Declare(t.Context(), conn, cfg); err != nil {
			t.Fatal(err)
		}
	}
}

// The exchanges of tap copies and of dead letters take messages from brokers only. A
// message that a client publishes there could have a forged history.
func TestNobodyPublishesDeadLetters(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := named(t, b, Quorum)
		declareTwice(t, b, cfg)
		for _, exchange := range []string{cfg.Topology.Tap(), cfg.Retry(), cfg.Late()} {
			ch := b.Channel(t)
			closed := ch.NotifyClose(make(chan *amqp.Error, 1))
			if err := ch.Publish(exchange, "k", false, false, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
			if why := rabbittest.Receive(t, closed); why == nil || why.Code != amqp.AccessRefused {
				t.Errorf("a publish to %s ends with %v", exchange, why)
			}
		}
	})
}

func TestTopologyCarriesMessagesAsDesigned(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []QueueType{Quorum, Classic} {
			t.Run(string(kind), func(t *testing.T) {
				rabbittest.NoLeaks(t)
				cfg := named(t, b, kind)
				declareTwice(t, b, cfg)
				ch := b.Channel(t)
				send := func(exchange, key string, p amqp.Publishing) {
					t.Helper()
					if err := ch.Publish(exchange, key, false, false, p); err != nil {
						t.Fatal(err)
					}
				}
				send(cfg.Events(), "poisoned", amqp.Publishing{Body: []byte("event")})
				dying := b.Queue(t, amqp.Table{"x-dead-letter-exchange": cfg.Retry(), "x-message-ttl": int32(1)})
				send("", dying, amqp.Publishing{Body: []byte("dead letter")})
				send(cfg.Direct(), wire.DelaysOf(cfg.Topology).Queue(50*time.Millisecond), amqp.Publishing{Body: []byte("delayed")})
				for queue, body := range map[string]string{cfg.Log(): "event", cfg.Retry(): "dead letter", cfg.Topology.Due(): "delayed"} {
					if d := b.Take(t, queue, 1)[0]; string(d.Body) != body {
						t.Errorf("%s holds %s", queue, d.Body)
					}
				}
			})
		}
	})
}

func TestTapCopiesEveryKindOfExchange(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := named(t, b, Quorum)
		prefix := cfg.Prefix + "-tapped-"
		for _, kind := range []string{"topic", "fanout", "headers", "direct"} {
			tap := Tap{Exchange: prefix + kind, Type: kind}
			if kind == "direct" {
				tap.Keys = []string{"key", "key"}
			}
			cfg.Tap = append(cfg.Tap, tap)
			b.DeleteExchange(t, tap.Exchange)
		}
		// One is there already, with flags of its own.
		ch := b.Channel(t)
		if err := ch.ExchangeDeclare(prefix+"topic", "topic", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		declareTwice(t, b, cfg)
		for _, tap := range cfg.Tap {
			if err := ch.Publish(tap.Exchange, "key", false, false, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
			d := b.Take(t, cfg.Index(), 1)[0]
			if d.Exchange != tap.Exchange || d.RoutingKey != "key" {
				t.Errorf("exchange %q, key %q", d.Exchange, d.RoutingKey)
			}
		}
		// A message that expires in the index queue is not lost, and keeps its key.
		if err := ch.Publish(prefix+"topic", "short", false, false, amqp.Publishing{Expiration: "1"}); err != nil {
			t.Fatal(err)
		}
		if d := b.Take(t, cfg.IndexLate(), 1)[0]; d.RoutingKey != "short" || d.Exchange != cfg.Late() {
			t.Errorf("late copy: exchange %q, key %q", d.Exchange, d.RoutingKey)
		}
	})
}

func TestRouteQueuesAreMadeOrLeftAlone(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := named(t, b, Quorum)
		theirs := b.Queue(t, amqp.Table{"x-max-length": 5})
		fresh := rabbittest.Name(t)
		b.DeleteQueue(t, fresh)
		cfg.Routes = []Route{
			{Queue: theirs, Bind: []Bind{{"amq.topic", cfg.Prefix + ".*"}}},
			{Queue: fresh, Bind: []Bind{{"amq.topic", cfg.Prefix + ".*"}}},
		}
		declareTwice(t, b, cfg)
		if err := b.Channel(t).Publish("amq.topic", cfg.Prefix+".x", false, false, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		b.Take(t, theirs, 1)
		b.Take(t, fresh, 1)
	})
}

func TestDeclareSaysWhatDiffers(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		conn := connection(t, b)
		for _, test := range []struct {
			name, kind, differs, argument string
			prepare                       func(*Config, *amqp.Channel) error
		}{
			{"delay queue", "queue", ".wait.50", "", func(cfg *Config, ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(wire.DelaysOf(cfg.Topology).Queue(50*time.Millisecond), true, false, false, false,
					amqp.Table{"x-queue-type": "quorum", "x-message-ttl": 1})
				return err
			}},
			{"own exchange", "exchange", ".events", "type", func(cfg *Config, ch *amqp.Channel) error {
				return ch.ExchangeDeclare(cfg.Events(), "fanout", true, false, false, false, nil)
			}},
			{"tapped exchange", "exchange", "-tapped", "type", func(cfg *Config, ch *amqp.Channel) error {
				cfg.Tap = []Tap{{Exchange: cfg.Prefix + "-tapped", Type: "topic"}}
				b.DeleteExchange(t, cfg.Tap[0].Exchange)
				return ch.ExchangeDeclare(cfg.Tap[0].Exchange, "direct", true, false, false, false, nil)
			}},
		} {
			t.Run(test.name, func(t *testing.T) {
				cfg := named(t, b, Quorum)
				if err := test.prepare(&cfg, b.Channel(t)); err != nil {
					t.Fatal(err)
				}
				err := Declare(t.Context(), conn, cfg)
				var differs *Error
				if !errors.As(err, &differs) || differs.Kind != test.kind || !strings.HasSuffix(differs.Name, test.differs) ||
					differs.Argument == "" || test.argument != "" && differs.Argument != test.argument {
					t.Fatalf("got %v", err)
				}
				t.Log(err)
			})
		}
	})
}

func TestTopologyIsCheckedBeforeAnythingIsDeclared(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"own exchange":     func(c *Config) { c.Tap = []Tap{{Exchange: "watership.events", Type: "topic"}} },
		"default exchange": func(c *Config) { c.Tap = []Tap{{Type: "direct"}} },
		"direct, no keys":  func(c *Config) { c.Tap = []Tap{{Exchange: "x", Type: "direct"}} },
		"unknown type":     func(c *Config) { c.Tap = []Tap{{Exchange: "x", Type: "x-random"}} },
		"no delay":         func(c *Config) { c.Delays = []time.Duration{0} },
		"half a ms":        func(c *Config) { c.Delays = []time.Duration{1500 * time.Microsecond} },
		"queue type":       func(c *Config) { c.QueueType = "stream" },
		"long queue":       func(c *Config) { c.Routes = []Route{{Queue: strings.Repeat("q", 256)}} },
		"queue, not text":  func(c *Config) { c.Routes = []Route{{Queue: "q\xff"}} },
		"long exchange":    func(c *Config) { c.Tap = []Tap{{Exchange: strings.Repeat("x", 256), Type: "topic"}} },
		"nothing to bind":  func(c *Config) { c.Routes = []Route{{Queue: "q", Bind: []Bind{{Key: "k"}}}} },
	} {
		t.Run(name, func(t *testing.T) {
			var cfg Config
			change(&cfg)
			if err := Declare(t.Context(), nil, cfg); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// TestEffectiveTopology compares the topology with the one that the management API reports.
func TestEffectiveTopology(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		if b.ManagementURL == "" {
			t.Skip("no management API")
		}
		cfg := named(t, b, Quorum)
		cfg.IndexLimit = 1000
		b.DeleteQueue(t, cfg.Index())
		b.DeleteQueue(t, cfg.IndexLate())
		declareTwice(t, b, cfg)
		management, err := rabbit.NewManagement(b.ManagementURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]map[string]any{
			cfg.Log():          {"x-single-active-consumer": true, "x-max-length": nil},
			cfg.Index():        {"x-single-active-consumer": true, "x-max-length": 1000.0, "x-dead-letter-exchange": cfg.Late()},
			cfg.IndexLate():    {"x-single-active-consumer": true, "x-max-length": 1000.0, "x-dead-letter-exchange": nil},
			cfg.Topology.Due(): {"x-overflow": "reject-publish"},
			wire.DelaysOf(cfg.Topology).Queue(24 * time.Hour): {
				"x-message-ttl": 86400000.0, "x-dead-letter-exchange": cfg.Direct(), "x-dead-letter-routing-key": cfg.Topology.Due(),
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			},
		} {
			q, err := management.Queue(t.Context(), "/", name)
			if err != nil {
				t.Fatal(err)
			}
			want["x-queue-type"], want["x-delivery-limit"] = "quorum", 2147483647.0
			for argument, value := range want {
				if q.Arguments[argument] != value {
					t.Errorf("%s: %s is %v, want %v", name, argument, q.Arguments[argument], value)
				}
			}
		}
	})
}

// Former releases declared queues of Watership without an overflow, and a queue's arguments never change.
func TestQueuesOfFormerReleasesStay(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := named(t, b, Quorum)
		for _, name := range []string{cfg.Log(), cfg.Topology.Due()} {
			q, _ := cfg.queueNamed(name)
			former := maps.Clone(q.args)
			delete(former, "x-overflow")
			if _, err := b.Channel(t).QueueDeclare(name, true, false, false, false, former); err != nil {
				t.Fatal(err)
			}
		}
		declareTwice(t, b, cfg)
	})
}
