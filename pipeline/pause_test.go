package pipeline

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/schemas"
)

// instances are two processes with the same route, whose handlers take as long as a test
// lets them.
type instances struct {
	*rig
	other *rig
	queue string
	free  chan struct{} // an element for each message that may end; closed: all

	mu      sync.Mutex // guards the fields below
	begun   []string   // ids of messages
	handled []string
}

func startInstances(t *testing.T, b rabbittest.Broker, adjust func(*Route)) *instances {
	i := &instances{queue: rabbittest.Name(t), free: make(chan struct{}, 1000)}
	route := Route{Queue: i.queue, Concurrency: 2, Handler: handler(i.handle)}
	if adjust != nil {
		adjust(&route)
	}
	i.rig = start(t, b, func(c *Config) { c.Routes = []Route{route} })
	i.other = &rig{t: t, broker: b, topology: i.topology, log: i.log, cfg: i.cfg}
	i.other.cfg.Standalone = false // a service, which knows nothing but RabbitMQ
	i.other.run()
	return i
}

func (i *instances) handle(msg *message.Message) error {
	i.mu.Lock()
	i.begun = append(i.begun, msg.UUID)
	i.mu.Unlock()
	<-i.free
	i.mu.Lock()
	i.handled = append(i.handled, msg.UUID)
	i.mu.Unlock()
	return nil
}

func (i *instances) counts() (begun, handled int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.begun), len(i.handled)
}

func (i *instances) send(from, to int) {
	i.t.Helper()
	for n := from; n < to; n++ {
		i.publish("", i.queue, amqp.Publishing{MessageId: fmt.Sprint("m", n)})
	}
}

// set pauses or resumes the route, as the API does, and waits until both processes know.
func (i *instances) set(paused bool) {
	i.t.Helper()
	control := pause.Control{
		Topology: i.topology, Connection: i.pipeline.connections.sending, Publisher: i.pipeline.ownPublisher, Sign: func(m rabbit.Message) rabbit.Message { return m },
	}
	do := control.Resume
	if paused {
		do = control.Pause
	}
	if err := do(i.t.Context(), i.queue, "a deploy"); err != nil {
		i.t.Fatal(err)
	}
	rabbittest.Eventually(i.t, "both processes know", func() bool {
		return i.pipeline.Routes()[0].PausedByHand == paused && i.other.pipeline.Routes()[0].PausedByHand == paused
	})
}

// state returns the numbers of messages and consumers of the route's queue.
func (i *instances) state() (messages, consumers int) {
	i.t.Helper()
	queue, err := i.admin.QueueDeclarePassive(i.queue, true, false, false, false, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	return queue.Messages, queue.Consumers
}

// awaitIdle waits until so many messages are in the queue and nobody consumes. A quorum queue
// counts a cancelled consumer until its last message is settled, so handlers must have returned.
func (i *instances) awaitIdle(messages int) {
	i.t.Helper()
	var n, consumers int
	defer func() {
		if i.t.Failed() {
			i.t.Logf("the queue has %d messages and %d consumers", n, consumers)
		}
	}()
	rabbittest.Eventually(i.t, fmt.Sprintf("%d messages are in the queue, and nobody consumes", messages), func() bool {
		n, consumers = i.state()
		return n == messages && consumers == 0
	})
}

// An operator pauses a route: every process finishes the messages that its handlers have
// and takes no more, also after a restart, until the route is resumed. No message is lost
// or handled twice.
func TestPausedByHand(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		i := startInstances(t, b, nil)
		i.send(0, 20)
		rabbittest.Eventually(t, "each handler has a message", func() bool { begun, _ := i.counts(); return begun == 4 })
		i.set(true)
		for range 4 {
			i.free <- struct{}{}
		}
		i.waitFor(4, schemas.Handled)
		i.awaitIdle(16)
		if err := i.other.stop(); err != nil {
			t.Fatal(err)
		}
		i.other.run()
		i.send(20, 30)
		time.Sleep(pause.Every + pause.Every/2) // nothing happens: there is no condition to wait for
		if begun, handled := i.counts(); begun != 4 || handled != 4 {
			t.Errorf("%d messages have begun and %d were handled while the route was paused", begun, handled)
		}
		i.awaitIdle(26)
		close(i.free)
		i.set(false)
		i.waitFor(30, schemas.Handled)
		i.mu.Lock()
		defer i.mu.Unlock()
		slices.Sort(i.handled)
		if all := slices.Compact(slices.Clone(i.handled)); len(all) != 30 || len(i.handled) != 30 {
			t.Errorf("%d messages were handled %d times", len(all), len(i.handled))
		}
		i.quiet()
	})
}

// A message that waits in the process for its key is not handled once the route is paused.
func TestPausedByHandWithFairness(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		i := startInstances(t, b, func(r *Route) {
			r.Fairness = Fairness{Key: func(schemas.Envelope) string { return "all" }, Ordered: true}
		})
		i.send(0, 20)
		rabbittest.Eventually(t, "a handler has a message", func() bool { begun, _ := i.counts(); return begun == 1 })
		i.set(true)
		close(i.free)
		i.awaitIdle(19)
		if _, handled := i.counts(); handled != 1 {
			t.Errorf("%d messages were handled", handled)
		}
		i.set(false)
		i.waitFor(20, schemas.Handled)
		i.mu.Lock()
		defer i.mu.Unlock()
		for n, id := range i.handled {
			if id != fmt.Sprint("m", n) {
				t.Fatalf("handled in the order %v", i.handled)
			}
		}
	})
}

// A route that is paused before its process starts declares its queue, so that messages
// wait there.
func TestPausedFromTheStart(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		i := startInstances(t, b, nil)
		i.set(true)
		for _, r := range []*rig{i.rig, i.other} {
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := i.admin.QueueDelete(i.queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		i.run()
		i.send(0, 3)
		i.awaitIdle(3)
		i.other.run()
		if begun, _ := i.counts(); begun != 0 {
			t.Errorf("%d messages have begun", begun)
		}
		close(i.free)
		i.set(false)
		i.waitFor(3, schemas.Handled)
	})
}
