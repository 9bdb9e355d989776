package overflow

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// limited is the topology of a configuration that drops copies.
var limited = schemas.Topology{IndexLimit: 2}

// rig has a Watcher at a broker whose topology is declared.
type rig struct {
	*Watcher
	log     rabbittest.Log
	channel *amqp.Channel
	events  <-chan amqp.Delivery // that the Watcher publishes
}

// newRig returns a rig whose Watcher asks a broker at url.
func newRig(t *testing.T, b rabbittest.Broker, url string) *rig {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: b.URL}, Topology: limited}))
	r := &rig{channel: b.Channel(t)}
	queue := b.Queue(t, nil)
	must(r.channel.QueueBind(queue, string(schemas.Dropped), limited.Events(), false, nil))
	var err error
	r.events, err = r.channel.Consume(queue, "", true, false, false, false, nil)
	must(err)
	conn, err := rabbit.Open(rabbit.Config{URL: url, Name: "watching"})
	must(err)
	t.Cleanup(func() { _ = conn.Close() })
	management, err := rabbit.NewManagement(b.ManagementURL, nil)
	must(err)
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	t.Cleanup(func() { _ = publisher.Close() })
	r.Watcher = &Watcher{
		Queues: Queues{
			Topology: limited, Events: limited.Events(), VHost: "/", Connection: conn, Publisher: publisher, Management: management,
			Sign: func(m rabbit.Message) rabbit.Message { return m },
		},
		Logger: r.log.Logger(), Lag: func(string, int) time.Duration { return 0 }, Registerer: prometheus.NewRegistry(),
	}
	return r
}

// fill publishes as many late copies as the queue holds, and waits for them.
func (r *rig) fill(t *testing.T, b rabbittest.Broker, n int) {
	t.Helper()
	for range n {
		b.Publish(t, limited.IndexLate(), amqp.Publishing{Body: []byte("copy")})
	}
	rabbittest.Eventually(t, "the copies to be in the queue", func() bool { return b.Len(t, limited.IndexLate()) >= int(limited.IndexLimit) })
}

// run runs the Watcher until it has looked at the queues.
func (r *rig) run(t *testing.T) {
	t.Helper()
	declared, looked, ended := make(chan struct{}), make(chan struct{}, 1), make(chan error, 1)
	close(declared)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- r.Run(ctx, declared, func() { looked <- struct{}{} }) }()
	rabbittest.Receive(t, looked)
	cancel()
	if err := rabbittest.Receive(t, ended); err != nil {
		t.Fatal(err)
	}
}

// wantGap wants an event with a text.
func (r *rig) wantGap(t *testing.T, text string) {
	t.Helper()
	event := rabbittest.Receive(t, r.events)
	_, state, err := wire.Unwrap(schemas.FromDelivery(event))
	if err != nil || !strings.Contains(state.Failure.Message, text) {
		t.Errorf("%q, %v: want %q", state.Failure.Message, err, text)
	}
}

// A quorum queue whose leader is silent for a moment answers as an empty one does.
func TestFullQueuesWhoseAnswerIsUncertain(t *testing.T) {
	b := rabbittest.Embedded(t)
	answers := 3
	r := newRig(t, b, b.SilentQueues(t, func(queue string) bool {
		if queue == limited.IndexLate() {
			answers--
		}
		return queue == limited.IndexLate() && answers >= 0
	}))
	r.fill(t, b, 5)
	r.run(t)
	r.wantGap(t, "while no process recorded them")
}

// Nothing is counted as known if the queues do not answer.
func TestQueuesThatDoNotAnswer(t *testing.T) {
	b := rabbittest.Embedded(t)
	r := newRig(t, b, b.URL)
	r.fill(t, b, 5)
	if err := r.Connection.Close(); err != nil {
		t.Fatal(err)
	}
	r.run(t)
	if r.counted != 0 || r.log.Count("it is not known whether copies of messages were dropped") != 1 {
		t.Errorf("%d counted: %s", r.counted, r.log.String())
	}
}

// Copies that another process records too slowly are dropped although they are recorded.
func TestFullQueuesThatAnotherProcessConsumes(t *testing.T) {
	b := rabbittest.Embedded(t)
	r := newRig(t, b, b.URL)
	if err := r.channel.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := r.channel.Consume(limited.IndexLate(), "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Publish(t, limited.IndexLate(), amqp.Publishing{})
	rabbittest.Receive(t, deliveries)
	r.fill(t, b, 5)
	r.run(t)
	r.wantGap(t, " between ")
}

// setup may end while it empties full queues, and begin again.
func TestGapOfFullQueuesIsRecordedOnce(t *testing.T) {
	b := rabbittest.Embedded(t)
	r := newRig(t, b, b.URL)
	for range 2 { // the second time with new queues
		r.fill(t, b, 5)
		for range 2 {
			if full, err := r.RecordFull(t.Context()); err != nil || !full {
				t.Fatalf("full: %v, %v", full, err)
			}
		}
		r.wantGap(t, "while no process recorded them")
		if _, err := r.channel.QueueDelete(limited.IndexLate(), false, false, false); err != nil {
			t.Fatal(err)
		}
		if err := pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: b.URL}, Topology: limited}); err != nil {
			t.Fatal(err)
		}
	}
	if full, err := r.RecordFull(t.Context()); err != nil || full {
		t.Errorf("full: %v, %v", full, err)
	}
	last := amqp.Publishing{MessageId: "last"}
	if err := r.channel.Publish(limited.Events(), string(schemas.Dropped), false, false, last); err != nil {
		t.Fatal(err)
	}
	if event := rabbittest.Receive(t, r.events); event.MessageId != "last" {
		t.Error("a gap has another event")
	}
}
