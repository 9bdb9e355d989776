package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// Everything in a virtual host waits for its lock, so work under it must not grow
// faster than the number of requests that caused it. These tests compare the time of
// undoing much at once with the time that doing it took, request by request.

func fasterThan(t *testing.T, doing time.Duration, undo func()) {
	t.Helper()
	begin := time.Now()
	undo()
	if took := time.Since(begin); took > doing {
		t.Errorf("took %v, and doing it %v", took, doing)
	}
}

func TestTopicOfManyHashes(t *testing.T) {
	b := start(t, broker.Config{})
	ch := channel(t, connect(t, b))
	declare(t, ch, "q", nil)
	for _, pattern := range []string{strings.Repeat("#.", 120) + "z", strings.Repeat("#.a.", 60) + "z", strings.Repeat("#.*.", 60) + "z"} {
		if err := ch.QueueBind("q", pattern, "amq.topic", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := ch.Publish("amq.topic", strings.Repeat("a.", 127)+"b", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	if err := ch.Publish("amq.topic", strings.Repeat("a.", 126)+"z", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	if n := length(t, ch, "q"); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
}

func TestDeletingManyBindings(t *testing.T) {
	for _, kind := range []string{"fanout", "direct", "topic", "headers"} {
		for _, deleted := range []string{"exchange", "queue"} {
			t.Run(kind+"/"+deleted, func(t *testing.T) {
				b := start(t, broker.Config{})
				ch := channel(t, connect(t, b))
				declare(t, ch, "q", nil)
				if err := ch.ExchangeDeclare("x", kind, true, false, false, false, nil); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				bindTimes(t, ch, 20_000)
				fasterThan(t, time.Since(begin), func() {
					var err error
					if deleted == "exchange" {
						err = ch.ExchangeDelete("x", false, false)
					} else {
						_, err = ch.QueueDelete("q", false, false, false)
					}
					if err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// bindTimes binds q to x so many times, by one key and with different arguments.
func bindTimes(t *testing.T, ch *amqp.Channel, n int) {
	t.Helper()
	for i := range n {
		if err := ch.QueueBind("q", "key", "x", true, amqp.Table{"n": int32(i)}); err != nil {
			t.Fatal(err)
		}
	}
	length(t, ch, "q") // answered once all are bound
}

func TestLosingManyConsumers(t *testing.T) {
	b := start(t, broker.Config{})
	conn, ch := connect(t, b), channel(t, connect(t, b))
	declare(t, ch, "q", nil)
	publish(t, ch, "q", amqp.Publishing{})
	const channels, each = 40, 1000
	begin := time.Now()
	for range channels {
		consuming := channel(t, conn)
		for i := range each {
			if _, err := consuming.Consume("q", fmt.Sprint(i), false, false, false, true, nil); err != nil {
				t.Fatal(err)
			}
		}
		length(t, consuming, "q")
	}
	fasterThan(t, time.Since(begin)/2, func() {
		if err := conn.CloseDeadline(time.Now().Add(patience)); err != nil {
			t.Error(err)
		}
		if q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil); err != nil || q.Consumers != 0 || q.Messages != 1 {
			t.Errorf("%+v, %v", q, err)
		}
	})
}

func TestReturningManyMessages(t *testing.T) {
	b := start(t, broker.Config{Heartbeat: time.Hour}) // the client waits for heartbeats, and a slow machine takes a minute
	conn, err := dial(b, amqp.Config{Heartbeat: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch := channel(t, conn)
	declare(t, ch, "q", nil)
	const n = 200_000
	begin := time.Now()
	for range n {
		publish(t, ch, "q", amqp.Publishing{})
	}
	deliveries, err := ch.Consume("q", "tag", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		receive(t, deliveries)
	}
	if err := ch.Cancel("tag", false); err != nil {
		t.Fatal(err)
	}
	fasterThan(t, time.Since(begin), func() {
		for tag := uint64(n); tag > 0; tag-- {
			if err := ch.Nack(tag, false, true); err != nil {
				t.Fatal(err)
			}
		}
		if left := length(t, ch, "q"); left != n {
			t.Errorf("%d messages, want %d", left, n)
		}
	})
}

// The messages of a lost connection are not delivered again to another of its
// channels, which would count as one more failed delivery.
func TestLostConnectionCountsOnce(t *testing.T) {
	b := start(t, broker.Config{})
	conn, ch := connect(t, b), channel(t, connect(t, b))
	declare(t, ch, "q", amqp.Table{"x-queue-type": "quorum"})
	for range 10 {
		consuming := channel(t, conn)
		if _, err := consuming.Consume("q", "", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, ch, "q", amqp.Publishing{})
	if n := length(t, ch, "q"); n != 0 {
		t.Fatalf("%d messages are ready", n)
	}
	conn.Close()
	d, ok, err := ch.Get("q", true)
	if err != nil || !ok || d.Headers["x-delivery-count"] != int64(1) {
		t.Errorf("%+v, %v, %v", d.Headers, ok, err)
	}
}
