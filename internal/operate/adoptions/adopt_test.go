package adoptions_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire/report"
	"github.com/watershipmq/watership/schemas"
)

// errorQueue is a queue with failures of Spring, and an exchange for reports with a queue.
type errorQueue struct {
	adoptions.Adopter
	broker  rabbittest.Broker
	channel *amqp.Channel
	reports string // queue
}

func newErrorQueue(t *testing.T, broker rabbittest.Broker, url string) errorQueue {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	t.Cleanup(func() {
		_ = publisher.Close()
		_ = conn.Close()
	})
	format, err := adoptions.FormatNamed("spring")
	if err != nil {
		t.Fatal(err)
	}
	q := errorQueue{broker: broker, channel: broker.Channel(t), Adopter: adoptions.Adopter{
		Connection: conn, Publisher: publisher, Topology: schemas.Topology{Prefix: rabbittest.Name(t)},
		Format: format, Queue: broker.Queue(t, nil), Of: "orders",
	}}
	exchange := q.Topology.Report()
	if err := q.channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	broker.DeleteExchange(t, exchange)
	q.reports = broker.Queue(t, nil)
	return q
}

func (q errorQueue) bind(t *testing.T) {
	t.Helper()
	if err := q.channel.QueueBind(q.reports, "#", q.Topology.Report(), false, nil); err != nil {
		t.Fatal(err)
	}
}

// publish fills the error queue; every tenth message is none of Spring's if some are not.
func (q errorQueue) publish(t *testing.T, n int, foreign bool) {
	t.Helper()
	for i := range n {
		m := amqp.Publishing{MessageId: fmt.Sprint("m-", i), Headers: amqp.Table{
			"x-exception-message": "boom", "x-original-exchange": "shop", "x-original-routingKey": "order.created", "CC": []any{"audit"},
		}}
		if foreign && i%10 == 0 {
			m.Headers = nil
		}
		if err := q.channel.Publish("", q.Queue, false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the messages to arrive", func() bool { return q.broker.Len(t, q.Queue) == n })
}

// reported returns the ids of the messages that were reported, and how often.
func (q errorQueue) reported(t *testing.T) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, d := range q.broker.Take(t, q.reports, q.broker.Len(t, q.reports)) {
		told, err := report.Parse(schemas.FromDelivery(d))
		if err != nil || told.Outcome != report.Poison || told.Error != "boom" || d.RoutingKey != "orders" ||
			told.Message.Exchange != "shop" || told.Message.RoutingKey != "order.created" || len(told.Message.Headers) != 0 {
			t.Errorf("the report of %s is %+v, %v", d.MessageId, told, err)
		}
		ids[d.MessageId]++
	}
	return ids
}

func TestRun(t *testing.T) {
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		q := newErrorQueue(t, broker, broker.URL)
		q.bind(t)
		q.publish(t, 250, true)
		for range 2 { // a look changes nothing
			if found, err := q.Look(t.Context()); err != nil || found.Failures != 225 || found.Unreadable != 25 ||
				len(found.Groups) != 1 || found.Groups[0] != (adoptions.OriginGroup{Queue: "orders", Exchange: "shop", Failures: 225}) {
				t.Fatalf("a look finds %+v, %v", found, err)
			}
		}
		q.Limit = 20
		if done, err := q.Run(t.Context(), func(int) {}); err != nil || done.Failures != 18 || done.Unreadable != 2 {
			t.Errorf("the first 20: %+v, %v", done, err)
		}
		q.Limit = 0
		done, err := q.Run(t.Context(), func(int) {})
		if err != nil || done.Failures != 207 || done.Unreadable != 25 || !strings.Contains(done.Cause, "x-exception-message") {
			t.Errorf("the rest: %+v, %v", done, err)
		}
		if ids := q.reported(t); len(ids) != 225 {
			t.Errorf("%d messages were reported, want 225", len(ids))
		}
		if left := broker.Len(t, q.Queue); left != 25 {
			t.Errorf("%d messages stayed, want the 25 of another form", left)
		}
	})
}

func TestNothingIsLostWithoutTheQueueOfReports(t *testing.T) {
	broker := rabbittest.Embedded(t)
	q := newErrorQueue(t, broker, broker.URL)
	q.publish(t, 10, false)
	if done, err := q.Run(t.Context(), func(int) {}); err == nil || !strings.Contains(err.Error(), "run watership setup") || done.Failures != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if left := broker.Len(t, q.Queue); left != 10 {
		t.Errorf("%d messages stayed, want 10", left)
	}
	q.Queue = "nosuch"
	if _, err := q.Look(t.Context()); err == nil || !strings.Contains(err.Error(), `no queue "nosuch"`) {
		t.Errorf("a missing queue: %v", err)
	}
	q.Queue = q.Topology.Poison()
	if _, err := q.Look(t.Context()); err == nil {
		t.Error("Watership's own queue is taken in")
	}
}

// A queue of another system ends the run at some number of messages, and keeps them all.
func TestTheWrongFormat(t *testing.T) {
	broker := rabbittest.Embedded(t)
	q := newErrorQueue(t, broker, broker.URL)
	q.bind(t)
	q.publish(t, 500, false)
	q.Format, _ = adoptions.FormatNamed("nservicebus")
	if done, err := q.Run(t.Context(), func(int) {}); err == nil || !strings.Contains(err.Error(), "NServiceBus.FailedQ") || done.Failures != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if left := broker.Len(t, q.Queue); left != 500 {
		t.Errorf("%d messages stayed, want 500", left)
	}
}

// The connection is lost again and again while messages arrive: each is reported, and at most
// the prefetch of each lost connection twice, whose acknowledgements may be lost.
func TestFollowOverLostConnections(t *testing.T) {
	broker := rabbittest.Newest(t)
	proxy := broker.Proxy(t)
	q := newErrorQueue(t, broker, proxy.URL)
	q.bind(t)
	q.Follow = true
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := q.Run(ctx, func(int) {})
		ended <- err
	}()
	const rounds, each, prefetch = 4, 600, 200
	published := 0
	for range rounds {
		for n := range each {
			m := amqp.Publishing{MessageId: fmt.Sprint("m-", published+n), Headers: amqp.Table{
				"x-exception-message": "boom", "x-original-exchange": "shop", "x-original-routingKey": "order.created",
			}}
			if err := q.channel.Publish("", q.Queue, false, false, m); err != nil {
				t.Fatal(err)
			}
		}
		published += each
		until(t, "some reports", func() bool { return broker.Len(t, q.reports) > published-each/2 })
		proxy.Cut()
		proxy.Mend()
	}
	until(t, "the reports", func() bool { return broker.Len(t, q.Queue) == 0 && broker.Len(t, q.reports) >= published })
	stop()
	if err := <-ended; err == nil {
		t.Error("a run that is followed ends without the reason")
	}
	q.Follow = false
	if _, err := q.Run(t.Context(), func(int) {}); err != nil { // what was on its way at the end
		t.Fatal(err)
	}
	ids, twice := q.reported(t), 0
	for _, times := range ids {
		twice += times - 1
	}
	if len(ids) != published || twice > (rounds+1)*prefetch {
		t.Errorf("%d of %d messages were reported, %d times more than once", len(ids), published, twice)
	}
	if left := broker.Len(t, q.Queue); left != 0 {
		t.Errorf("%d messages stayed", left)
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !rabbittest.Poll(2*time.Minute, condition) {
		t.Fatalf("waited in vain for %s", what)
	}
}

// A stream keeps the messages that are acknowledged, so nothing of it can be taken in.
func TestStream(t *testing.T) {
	rabbittest.EachServer(t, func(t *testing.T, broker rabbittest.Broker) {
		q := newErrorQueue(t, broker, broker.URL)
		q.Queue = broker.Queue(t, amqp.Table{"x-queue-type": "stream"})
		var refused *adoptions.QueueError
		if found, err := q.Look(t.Context()); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "is a stream") {
			t.Errorf("a look finds %+v, %v", found, err)
		}
		if done, err := q.Run(t.Context(), func(int) {}); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "is a stream") {
			t.Errorf("a run: %+v, %v", done, err)
		}
	})
}

// RabbitMQ calls a queue empty whose leader is silent.
func TestSilentQueueIsTakenIn(t *testing.T) {
	broker := rabbittest.Newest(t)
	silent := 0
	q := newErrorQueue(t, broker, broker.SilentQueues(t, func(string) bool { silent++; return silent <= 3 }))
	q.bind(t)
	q.publish(t, 10, false)
	if done, err := q.Run(t.Context(), func(int) {}); err != nil || done.Failures != 10 {
		t.Errorf("%+v, %v", done, err)
	}
}
