package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// survivors declares queues, exchanges and messages, restarts a broker, and returns what is left.
func survivors(t *testing.T, open func() *amqp.Connection, restart func()) (left []string) {
	t.Helper()
	before := channel(t, open())
	name := func(s string) string { return "restarttest." + s }
	for _, q := range []struct {
		name                           string
		durable, autoDelete, exclusive bool
		args                           amqp.Table
	}{
		{name: "classic", durable: true},
		{name: "quorum", durable: true, args: amqp.Table{"x-queue-type": "quorum"}},
		{name: "consumed", durable: true, autoDelete: true},
		{name: "unconsumed", durable: true, autoDelete: true},
		{name: "exclusive", exclusive: true},
	} {
		if _, err := before.QueueDeclare(name(q.name), q.durable, q.autoDelete, q.exclusive, false, q.args); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := before.Consume(name("consumed"), "", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for exchange, durable := range map[string]bool{"durable": true, "transient": false} {
		if err := before.ExchangeDeclare(name(exchange), "fanout", durable, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := before.QueueBind(name("unconsumed"), "", name(exchange), false, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := before.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"classic", "quorum"} {
		for i, m := range []amqp.Publishing{
			{Body: []byte("taken"), DeliveryMode: amqp.Persistent},
			{Body: []byte("transient"), DeliveryMode: amqp.Transient},
			{Body: []byte("unmarked")},
			{Body: []byte("persistent"), DeliveryMode: amqp.Persistent},
		} {
			confirm, err := before.PublishWithDeferredConfirm("", name(queue), false, false, m)
			if err != nil || !confirm.Wait() {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if _, got, err := before.Get(name(queue), false); !got || err != nil {
			t.Fatal(got, err)
		}
	}
	closed := before.NotifyClose(make(chan *amqp.Error, 1))
	restart()
	left = append(left, fmt.Sprint((<-closed).Code))

	for _, queue := range []string{"classic", "quorum", "consumed", "unconsumed", "exclusive"} {
		after := channel(t, open())
		q, err := after.QueueDeclarePassive(name(queue), true, false, false, false, nil)
		if err != nil {
			continue
		}
		left = append(left, queue)
		for range q.Messages {
			d, _, err := after.Get(name(queue), true)
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, fmt.Sprintf("%s in %s, redelivered: %t, %v", d.Body, queue, d.Redelivered, d.Headers))
		}
	}
	for _, exchange := range []string{"durable", "transient"} {
		after := channel(t, open())
		if err := after.ExchangeDeclarePassive(name(exchange), "fanout", true, false, false, false, nil); err == nil {
			left = append(left, exchange)
		}
	}
	return left
}

func TestRestart(t *testing.T) {
	for release, others := range map[broker.Release][]string{
		broker.RabbitMQ43: {"taken in quorum, redelivered: true, map[x-acquired-count:1 x-delivery-count:1]", "transient"},
		broker.RabbitMQ40: {"taken in quorum, redelivered: true, map[x-delivery-count:1]"},
	} {
		t.Run(release.Version(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := restarted(t, release)
				want := append([]string{
					"320", "classic", "quorum", "unconsumed", "durable",
					"taken in classic, redelivered: true, map[]", "persistent in classic, redelivered: false, map[]",
					"transient in quorum, redelivered: false, map[]", "unmarked in quorum, redelivered: false, map[]", "persistent in quorum, redelivered: false, map[]",
				}, others...)
				slices.Sort(left)
				slices.Sort(want)
				if !slices.Equal(left, want) {
					t.Errorf("what is left: %q\nwant %q", left, want)
				}
			})
		})
	}
}

func restarted(t *testing.T, release broker.Release) (left []string) {
	t.Helper()
	b := broker.New(broker.Config{Release: release})
	defer b.Close()
	var open []*amqp.Connection
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	return survivors(t, func() *amqp.Connection {
		conn := connect(t, b)
		open = append(open, conn)
		return conn
	}, func() { b.Restart(time.Minute) })
}

// A broker that restarts answers nobody, and the time of x-expires begins again with its start.
func TestRestartedBrokerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Config{})
		defer b.Close()
		first := channel(t, connect(t, b))
		declare(t, first, "leased", amqp.Table{"x-expires": int32(60_000)})
		declare(t, first, "expiring", amqp.Table{"x-message-ttl": int32(10_000)})
		publish(t, first, "expiring", amqp.Publishing{DeliveryMode: amqp.Persistent})
		started := make(chan struct{})
		go func() {
			b.Restart(2 * time.Minute)
			close(started)
		}()
		time.Sleep(time.Minute)
		if conn, err := dial(b, amqp.Config{}); err == nil {
			t.Error("it has accepted a connection")
			_ = conn.Close()
		}
		if n := b.QueueLengths("/")["expiring"]; n != 1 {
			t.Errorf("a queue has %d messages while the broker is stopped", n)
		}
		<-started
		time.Sleep(59 * time.Second)
		conn := connect(t, b)
		after := channel(t, conn)
		if _, err := after.QueueDeclarePassive("leased", true, false, false, false, nil); err != nil {
			t.Errorf("its time ran while the broker was stopped: %v", err)
		}
		if n := length(t, after, "expiring"); n != 0 {
			t.Errorf("%d expired messages are left", n)
		}
		_ = conn.Close()
	})
}
