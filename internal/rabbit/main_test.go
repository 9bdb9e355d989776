package rabbit

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// open opens a connection and closes it when the test ends. Adjust may be nil.
func open(t testing.TB, url string, adjust func(*Config)) *Connection {
	t.Helper()
	cfg := Config{URL: url, Name: t.Name(), Backoff: backoff.Backoff{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond}}
	if adjust != nil {
		adjust(&cfg)
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func publisher(t testing.TB, c *Connection, window int) *Publisher {
	t.Helper()
	return publisherWith(t, c, PublisherConfig{Window: window})
}

func publisherWith(t testing.TB, c *Connection, cfg PublisherConfig) *Publisher {
	t.Helper()
	p := NewPublisher(c, cfg)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close publisher: %v", err)
		}
	})
	return p
}

// testContext returns a context that ends after rabbittest.Timeout.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), rabbittest.Timeout)
	t.Cleanup(cancel)
	return ctx
}

func to(queue, body string) Message {
	return Message{RoutingKey: queue, Publishing: amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent}}
}

// sendAll sends n numbered messages without waiting for their confirms.
func sendAll(t testing.TB, p *Publisher, queue string, n int) []*Pending {
	t.Helper()
	ctx := testContext(t)
	all := make([]*Pending, n)
	for i := range n {
		var err error
		if all[i], err = p.Send(ctx, to(queue, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func waitAll(t testing.TB, all []*Pending) {
	t.Helper()
	ctx := testContext(t)
	for i, m := range all {
		if err := m.Wait(ctx); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// wantAll fails unless the queue holds each of n numbered messages; it returns the
// number of duplicates.
func wantAll(t testing.TB, b rabbittest.Broker, queue string, n int) (duplicates int) {
	t.Helper()
	seen := map[string]int{}
	deliveries, err := b.Channel(t).Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for len(seen) < n {
		d := rabbittest.Receive(t, deliveries)
		seen[string(d.Body)]++
	}
	for _, count := range seen {
		duplicates += count - 1
	}
	return duplicates
}
