package server_test

import (
	"fmt"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// divided is an installation whose copies several index queues share.
type divided struct {
	*servertest.Installation
	partitions int
}

func newDivided(t *testing.T, b rabbittest.Broker, partitions int) *divided {
	t.Helper()
	d := &divided{servertest.Around(t, b.VHost(t)).Install(t, servertest.Nobody), partitions}
	d.Rewrite(t, `key: "#"`, "key: handled")
	d.Rewrite(t, "index: {", fmt.Sprintf("index: {partitions: %d, ", partitions))
	d.Must(t, "setup")
	return d
}

func (d *divided) topology() schemas.Topology {
	return schemas.Topology{Prefix: d.Prefix, IndexPartitions: d.partitions}
}

// change changes the number of index queues, as an operator does while no serve runs.
func (d *divided) change(t *testing.T, to int) (setup string) {
	t.Helper()
	d.Rewrite(t, fmt.Sprintf("partitions: %d", d.partitions), fmt.Sprintf("partitions: %d", to))
	d.partitions = to
	return d.Must(t, "setup")
}

const (
	partitionKeys = 40
	historySize   = 600
	historyRate   = 30 // replayed messages a second, so that a replay lasts while the number changes twice
	publishRate   = 50 // new messages a second
)

// publish publishes a message with one of several keys, and waits until the broker has it.
func (d *divided) publish(t *testing.T, publisher *rabbit.Publisher, kind string, n int) {
	m := amqp.Publishing{MessageId: fmt.Sprint(kind, "-", n), Headers: amqp.Table{"n": int64(n)}, Body: []byte(kind), DeliveryMode: amqp.Persistent}
	err := publisher.Publish(t.Context(), rabbit.Message{Exchange: d.Exchange, RoutingKey: fmt.Sprintf("%s.%d", kind, n%partitionKeys), Publishing: m})
	if err != nil {
		t.Errorf("publishing %s: %v", m.MessageId, err)
	}
}

// publishUntil publishes new messages until stop is closed, and then returns their number.
func (d *divided) publishUntil(t *testing.T, stop <-chan struct{}) (published func() int) {
	publisher, pace, n := d.Publisher(t), rate.NewLimiter(publishRate, 1), 0
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for ; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if pace.Wait(t.Context()) != nil {
				return
			}
			d.publish(t, publisher, "new", n)
		}
	})
	t.Cleanup(publishing.Wait)
	return func() int {
		publishing.Wait()
		return n
	}
}

// queue declares a queue, which is bound to the exchange by a key; "": it is not.
func (d *divided) queue(t *testing.T, key string) string {
	t.Helper()
	name, ch := rabbittest.Name(t), d.Broker.Channel(t)
	_, err := ch.QueueDeclare(name, true, false, false, false, nil)
	if err == nil && key != "" {
		err = ch.QueueBind(name, key, d.Exchange, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Broker.DeleteQueue(t, name)
	return name
}

// While the number of index queues goes from one to three and to two, a subscription reads each message once and
// those of a key in their order, and a replay sends each message once.
func TestPartitionsChangeUnderReaders(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		d := newDivided(t, b, 1)
		publisher := d.Publisher(t)
		for n := range historySize {
			d.publish(t, publisher, "old", n)
		}
		serving := d.Serve(t)
		d.Eventually(t, "action: published", historySize)
		replayed, subscribed := d.queue(t, "old.*"), d.queue(t, "")
		d.Must(t, "subscribe", "all", "destination.name: "+d.Exchange+" and routing_key: new.*", "--from", "start", "--to-queue", subscribed, "--max-backlog", "0")
		stop, job := make(chan struct{}), make(chan servertest.Result, 1)
		published := d.publishUntil(t, stop)
		go func() {
			job <- d.Run(t, "replay", "action: published and routing_key: old.*", "--rate", fmt.Sprint(historyRate), "--yes")
		}()
		rabbittest.Eventually(t, "the first replays", func() bool { return d.Broker.Len(t, replayed) > 0 })
		if sent := d.Broker.Len(t, replayed); sent >= historySize {
			t.Logf("the replay was over before the number changed: %d sent", sent)
		}
		for _, to := range []int{3, 2} {
			serving.Stop(t)
			d.change(t, to)
			serving = d.Serve(t)
		}
		close(stop)
		all := published()
		servertest.WantRun(t, rabbittest.Receive(t, job), 0)
		wantOnce(t, d.Broker.Take(t, replayed, d.Broker.Len(t, replayed)), "old", historySize)
		rabbittest.Eventually(t, "the subscription to deliver all", func() bool { return d.Broker.Len(t, subscribed) >= all })
		d.Eventually(t, "action: published and routing_key: new.*", all)
		wantOnce(t, d.Broker.Take(t, subscribed, d.Broker.Len(t, subscribed)), "new", all)
	})
}

// wantOnce wants one delivery of each message, and those of a key in their order.
func wantOnce(t *testing.T, deliveries []amqp.Delivery, kind string, n int) {
	t.Helper()
	last, positions := map[int64]int64{}, map[string]any{}
	for _, d := range deliveries {
		number, _ := d.Headers["n"].(int64)
		position := d.Headers[subscription.PositionHeader]
		if former, repeated := positions[d.MessageId]; repeated {
			if position == nil || former != position { // a subscription may deliver an event again when its process ends
				t.Errorf("%s was delivered twice, at %v and at %v", d.MessageId, former, position)
			}
			continue
		}
		positions[d.MessageId] = position
		key := number % partitionKeys
		if former, is := last[key]; is && number <= former {
			t.Errorf("message %d of key %d was delivered after %d", number, key, former)
		}
		last[key] = number
	}
	for number := range n {
		if _, delivered := positions[fmt.Sprint(kind, "-", number)]; !delivered {
			t.Fatalf("%d of %d messages were delivered, without %s-%d", len(positions), n, kind, number)
		}
	}
}

// A former prefix that has several index queues is retired into one with another number: each copy is recorded
// once, in the order of its key, and none of the former queues and exchanges is left.
func TestRetirePartitions(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		d := newDivided(t, b, 3)
		publisher, former := d.Publisher(t), d.topology()
		const n = 60
		for m := range n {
			d.publish(t, publisher, "new", m)
		}
		_, queues := former.Partitions()
		rabbittest.Eventually(t, "the copies to wait", func() bool { return readyIn(t, d.Broker, queues) == n })
		d.Prefix += "2"
		t.Cleanup(func() { d.Remove(t) })
		d.Configure(t, "prefix: "+former.Prefix, "prefix: "+d.Prefix, "partitions: 3", "partitions: 2")
		d.partitions = 2
		d.Must(t, "setup", "--retire", former.Prefix)
		wantFormer(t, d.Installation, former)
		management, err := rabbit.NewManagement(d.Broker.ManagementURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		exchanges, err := management.Exchanges(t.Context(), d.Broker.VHostName(t))
		for _, e := range exchanges {
			if former.Owns(e.Name) {
				t.Errorf("exchange %s is left: %v", e.Name, err)
			}
		}
		for m := n; m < 2*n; m++ {
			d.publish(t, publisher, "new", m)
		}
		d.Serve(t)
		events := d.Eventually(t, "action: published", 2*n)
		wantRecordedInOrder(t, events)
	})
}

func readyIn(t *testing.T, b rabbittest.Broker, queues []string) (all int) {
	for _, queue := range queues {
		all += b.Len(t, queue)
	}
	return all
}

// wantRecordedInOrder wants the events of a search, the newest first, in the order of each key.
func wantRecordedInOrder(t *testing.T, events []schemas.Event) {
	t.Helper()
	next := map[string]int64{}
	for _, e := range events {
		number, _ := e.Envelope.Headers["n"].(int64)
		if later, is := next[e.Envelope.RoutingKey]; is && number >= later {
			t.Errorf("message %d of %s is recorded before %d", number, e.Envelope.RoutingKey, later)
		}
		next[e.Envelope.RoutingKey] = number
	}
}
