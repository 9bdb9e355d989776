package topology

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// dividingInto returns a configuration whose tap copies several queues share, and a tapped exchange.
func dividingInto(t *testing.T, b rabbittest.Broker, partitions int, key string) (cfg Config, tapped string) {
	t.Helper()
	cfg = named(t, b, Quorum)
	cfg.IndexPartitions, cfg.PartitionKey, cfg.Delays = partitions, key, nil
	tapped = cfg.Prefix + "-tapped"
	cfg.Tap = []Tap{{Exchange: tapped, Type: "topic"}}
	removeCopies(t, b, cfg)
	b.DeleteExchange(t, tapped)
	return cfg, tapped
}

// removeCopies removes the queues of copies of a configuration after the test.
func removeCopies(t *testing.T, b rabbittest.Broker, cfg Config) {
	t.Helper()
	divides, queues := cfg.Partitions()
	for _, queue := range queues {
		b.DeleteQueue(t, queue)
	}
	b.DeleteQueue(t, cfg.IndexLate())
	if divides != "" {
		b.DeleteExchange(t, divides)
	}
}

// copies takes the copies in each queue, once there are so many in all.
func copies(t *testing.T, b rabbittest.Broker, queues []string, n int) [][]amqp.Delivery {
	t.Helper()
	rabbittest.Eventually(t, fmt.Sprint(n, " copies"), func() bool {
		all := 0
		for _, queue := range queues {
			all += b.Len(t, queue)
		}
		return all >= n
	})
	taken := make([][]amqp.Delivery, len(queues))
	for i, queue := range queues {
		taken[i] = b.Take(t, queue, b.Len(t, queue))
	}
	return taken
}

func TestCopiesAreDividedByTheirKey(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for _, by := range []string{"", "message_id", "headers.tenant"} {
			cfg, tapped := dividingInto(t, b, 3, by)
			declareTwice(t, b, cfg)
			ch := b.Channel(t)
			for n := range 60 {
				key := fmt.Sprint(n % 20)
				p := amqp.Publishing{MessageId: key, Headers: amqp.Table{"tenant": key}, Body: []byte(key)}
				routing := map[bool]string{true: key, false: fmt.Sprint("any", n)}[by == ""]
				if err := ch.Publish(tapped, routing, false, false, p); err != nil {
					t.Fatal(err)
				}
			}
			_, queues := cfg.Partitions()
			of := map[string]int{}
			for i, deliveries := range copies(t, b, queues, 60) {
				if len(deliveries) == 0 || len(deliveries)%3 != 0 {
					t.Errorf("by %q: %d copies in %s", by, len(deliveries), queues[i])
				}
				for _, d := range deliveries {
					if former, known := of[string(d.Body)]; known && former != i {
						t.Errorf("by %q: copies of %s are in two queues", by, d.Body)
					}
					of[string(d.Body)] = i
				}
			}
			if err := ch.Publish(tapped, "short", false, false, amqp.Publishing{Expiration: "1"}); err != nil {
				t.Fatal(err)
			}
			if d := b.Take(t, cfg.IndexLate(), 1)[0]; d.RoutingKey != "short" {
				t.Errorf("by %q: the late copy has the key %s", by, d.RoutingKey)
			}
		}
	})
}

// The deleted exchange is declared and bound again, before a message comes as well as by its queue's
// consumer, and so is a deleted queue.
func TestDividingIsRepaired(t *testing.T) {
	b := rabbittest.Either(t)
	cfg, tapped := dividingInto(t, b, 2, "message_id")
	declareTwice(t, b, cfg)
	by, ch := Reconciler{Conn: connection(t, b), Config: cfg}, b.Channel(t)
	divides, queues := cfg.Partitions()
	for name, repair := range map[string]func() error{
		"by the reconciler": func() error { return by.Repair(t.Context()) },
		"by a consumer":     func() error { return by.PrepareQueue(t.Context(), queues[0]) },
	} {
		if err := ch.ExchangeDelete(divides, false, false); err != nil {
			t.Fatal(err)
		}
		if err := repair(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		publishKey(t, b, tapped, name)
		copies(t, b, queues, 1)
	}
	if _, err := ch.QueueDelete(queues[1], false, false, false); err != nil {
		t.Fatal(err)
	}
	if err := by.Repair(t.Context()); err != nil {
		t.Error(err)
	}
	for n := range 20 {
		if err := ch.Publish(tapped, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if taken := copies(t, b, queues, 20); len(taken[0]) == 0 || len(taken[1]) == 0 {
		t.Errorf("%d and %d copies", len(taken[0]), len(taken[1]))
	}
}

// A broker without the plugin says so in its words, and a declaration how to get it.
func TestTheTypeOfTheDividingExchangeIsUnknown(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		cfg, _ := dividingInto(t, b, 2, "")
		cfg.Tap = nil
		unknown := b
		unknown.URL = b.RewriteSent(t, func(frame []byte) []byte {
			return bytes.ReplaceAll(frame, []byte(ConsistentHash), []byte("x-"+strings.Repeat("?", len(ConsistentHash)-2)))
		})
		err := Declare(t.Context(), connection(t, unknown), cfg)
		if err == nil || !strings.Contains(err.Error(), "no exchanges of type x-consistent-hash") || !strings.Contains(err.Error(), "rabbitmq-plugins enable rabbitmq_consistent_hash_exchange") {
			t.Errorf("got %v", err)
		}
	})
}

// Without partitions nothing is declared that a broker without the plugin lacks.
func TestOneQueueNeedsNoPlugin(t *testing.T) {
	for _, partitions := range []int{0, 1} {
		cfg := Config{}
		cfg.IndexPartitions = partitions
		if slices.ContainsFunc(cfg.exchanges(), func(e exchange) bool { return e.kind == ConsistentHash }) ||
			!slices.Contains(cfg.bindings(), binding{"watership.index", "watership.tap", ""}) {
			t.Errorf("%d partitions: %v, %v", partitions, cfg.exchanges(), cfg.bindings())
		}
	}
}
