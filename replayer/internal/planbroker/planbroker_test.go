package planbroker

import (
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// RabbitMQ calls the log empty while its leader is silent, which says nothing about its events.
func TestLogWithASilentLeader(t *testing.T) {
	b := rabbittest.Newest(t)
	topology := schemas.Topology{Prefix: rabbittest.Name(t)}
	ch := b.Channel(t)
	if _, err := ch.QueueDeclare(topology.Log(), true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true}); err != nil {
		t.Fatal(err)
	}
	b.DeleteQueue(t, topology.Log())
	if err := ch.Publish("", topology.Log(), false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "the event", func() bool { return b.Len(t, topology.Log()) == 1 })
	var silent atomic.Int32 // answers
	broker := rabbit.Config{URL: b.SilentQueues(t, func(queue string) bool {
		return queue == topology.Log() && silent.Add(-1) >= 0
	})}
	wantEvent := func(log Log, err error) {
		t.Helper()
		if err != nil || log != (Log{Events: 1}) {
			t.Errorf("the log is %+v: %v", log, err)
		}
	}

	plan, err := Open(t.Context(), Config{Broker: broker, Topology: topology, UncheckedRoutes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	silent.Store(3)
	wantEvent(plan.Log(t.Context()))

	job, err := exclusive.Open(t.Context(), broker, topology.Log()+".job", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	silent.Store(3)
	wantEvent(LogState(t.Context(), job.CertainQueueState, topology.Log()))
	select {
	case <-job.Lost():
		t.Error("the question ended the connection of the job")
	default:
	}
}
