package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// crashing is the environment of a process whose handler ends it.
const crashing = "WATERSHIP_TEST_CRASHING"

// TestCrashingProcess is the process of TestCrashLoop, which starts it. Its arguments are
// the URL, the prefix of the topology, the queue and the concurrency.
func TestCrashingProcess(t *testing.T) {
	var url, prefix, queue string
	var concurrency int
	if _, err := fmt.Sscan(os.Getenv(crashing), &url, &prefix, &queue, &concurrency); err != nil {
		t.Skip("only within TestCrashLoop")
	}
	p, err := New(Config{
		Connection: rabbitmq.Connection{URL: url}, Topology: schemas.Topology{Prefix: prefix}, Logger: slog.New(slog.DiscardHandler),
		Routes: []Route{{
			Queue: queue, Concurrency: concurrency, Policy: &retry.Policy{}, MaxDeliveries: 4,
			Handler: handler(func(msg *message.Message) error {
				if strings.HasPrefix(string(msg.Payload), "crash") {
					time.Sleep(50 * time.Millisecond) // others begin meanwhile
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
				if strings.HasPrefix(string(msg.Payload), "slow") {
					time.Sleep(1500 * time.Millisecond)
				}
				time.Sleep(200 * time.Millisecond)
				return nil
			}),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// A handler that takes its process down with it: its message is poison after a few
// processes, and the messages that were in flight with it are not.
func TestCrashLoop(t *testing.T) {
	b := rabbittest.Newest(t)
	for _, kind := range []QueueType{Quorum, Classic} {
		t.Run(string(kind), func(t *testing.T) { testCrashLoop(t, b, kind, 8, 10, 1) })
	}
}

func TestSoakCrashLoop(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []QueueType{Quorum, Classic} {
			for _, concurrency := range []int{1, 8} {
				t.Run(fmt.Sprint(kind, concurrency), func(t *testing.T) { testCrashLoop(t, b, kind, concurrency, 20, 2) })
			}
		}
	})
}

// Every second message ends its process, so that many are in flight with others.
func TestCrashLoopOfManyMessages(t *testing.T) {
	testManyCrashes(t, rabbittest.Newest(t), Quorum, 1, 3)
}

// Several processes consume a queue, so that a message goes from one that ends to another
// that soon ends, too.
func TestCrashLoopOfSeveralProcesses(t *testing.T) {
	testManyCrashes(t, rabbittest.Newest(t), Quorum, 3, 2)
}

func TestSoakManyCrashes(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []QueueType{Quorum, Classic} {
			for _, processes := range []int{1, 3} {
				for _, bad := range []int{2, 3} {
					t.Run(fmt.Sprint(kind, processes, bad), func(t *testing.T) { testManyCrashes(t, b, kind, processes, bad) })
				}
			}
		}
	})
}

func testManyCrashes(t *testing.T, b rabbittest.Broker, kind QueueType, processes, bad int) {
	t.Parallel()          // most of it is waiting
	const mostEnds = 40   // of each process
	r := start(t, b, nil) // has the roles
	queue := b.Queue(t, amqp.Table{"x-queue-type": string(kind)})
	for i := range 2 * bad * processes {
		body := fmt.Sprint("slow ", i)
		if i%2 == 1 {
			body = fmt.Sprint("crash ", i)
		}
		r.publish("", queue, amqp.Publishing{MessageId: fmt.Sprint(i), Body: []byte(body)})
	}
	messages := 2 * bad * processes
	var running sync.WaitGroup
	var ends atomic.Int32
	for range processes {
		running.Go(func() {
			for r.outcomes(queue) < messages && r.crash(t, queue, 4, messages) {
				if ends.Add(1) > int32(mostEnds*processes) {
					t.Errorf("%d processes ended, and %s", ends.Load(), r.eventText())
					return
				}
			}
		})
	}
	running.Wait()
	for _, e := range r.all(ofQueue(queue, schemas.Poisoned)) {
		if !strings.HasPrefix(string(e.Envelope.Body), "crash") {
			t.Errorf("an innocent message is poison: %s", e.Envelope.Body)
		}
	}
	if n := r.distinct(queue, schemas.Poisoned); n != bad*processes {
		t.Errorf("%d messages are poison instead of %d", n, bad*processes)
	}
	t.Logf("%d processes ended", ends.Load())
}

func testCrashLoop(t *testing.T, b rabbittest.Broker, kind QueueType, concurrency, good, bad int) {
	t.Parallel() // most of it is waiting
	const mostProcesses = 30
	r := start(t, b, nil) // has the roles
	queue := b.Queue(t, amqp.Table{"x-queue-type": string(kind)})
	for i := range good + bad {
		body := fmt.Sprint("good ", i)
		if i%7 == 2 && i/7 < bad {
			body = fmt.Sprint("crash ", i)
		}
		r.publish("", queue, amqp.Publishing{MessageId: fmt.Sprint(i), Body: []byte(body)})
	}
	processes := 0
	for r.outcomes(queue) < good+bad {
		if processes++; processes > mostProcesses {
			t.Fatalf("%d processes ended, and %s", processes, r.eventText())
		}
		if !r.crash(t, queue, concurrency, good+bad) {
			return
		}
	}
	for _, e := range r.all(ofQueue(queue, schemas.Poisoned)) {
		if !strings.HasPrefix(string(e.Envelope.Body), "crash") {
			t.Errorf("an innocent message is poison: %s", e.Envelope.Body)
		}
		var deliveries int
		_, err := fmt.Sscanf(e.Failure.Message, "delivered %d times from queue", &deliveries)
		if err != nil || deliveries != 4 || e.Failure.Type != "*pipeline.DeliveriesError" {
			t.Errorf("reason %q of type %s", e.Failure.Message, e.Failure.Type)
		}
	}
	if n := r.distinct(queue, schemas.Poisoned); n != bad {
		t.Errorf("%d messages are poison instead of %d", n, bad)
	}
	t.Logf("%d processes", processes)
}

// A message that ends its process is poison after a few processes, also if its headers leave little or no
// room for Watership's.
func TestCrashLoopOfFullHeaders(t *testing.T) {
	for name, filler := range map[string]int{"little room": 120 << 10, "no room": 130_500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			r := start(t, rabbittest.Newest(t), nil)
			queue := r.broker.Queue(t, amqp.Table{"x-queue-type": "quorum"})
			r.publish("", queue, amqp.Publishing{Body: []byte("crash"), Headers: amqp.Table{"filler": strings.Repeat("f", filler)}})
			for processes := 0; r.outcomes(queue) == 0; processes++ {
				if processes > 8 {
					t.Fatalf("%d processes ended, and %s", processes, r.eventText())
				}
				if !r.crash(t, queue, 1, 1) {
					return
				}
			}
			if e := r.wait(schemas.Poisoned); e.Failure.Type != "*pipeline.DeliveriesError" {
				t.Errorf("%+v", e.State)
			}
		})
	}
}

// ofQueue matches events of a queue with one of the actions.
func ofQueue(queue string, actions ...schemas.Action) func(event) bool {
	return func(e event) bool {
		for _, action := range actions {
			if e.Queue == queue && e.Action == action {
				return true
			}
		}
		return false
	}
}

// outcomes counts the messages of a queue that are handled or poison.
func (r *rig) outcomes(queue string) int { return r.distinct(queue, schemas.Handled, schemas.Poisoned) }

// distinct counts the messages with events of the actions. A process that ends after it has
// published an event leaves the message to the next one, which publishes another.
func (r *rig) distinct(queue string, actions ...schemas.Action) int {
	bodies := map[string]bool{}
	for _, e := range r.all(ofQueue(queue, actions...)) {
		bodies[string(e.Envelope.Body)] = true
	}
	return len(bodies)
}

// crash runs a process until it ends by itself, or all messages have an outcome. It returns
// false if it failed.
func (r *rig) crash(t *testing.T, queue string, concurrency, messages int) bool {
	t.Helper()
	process := exec.Command(os.Args[0], "-test.run=^TestCrashingProcess$", "-test.timeout=0")
	process.Env = append(os.Environ(), "WATERSHIP_TEST_MANAGEMENT_URLS=", // a killed process deletes no virtual host
		fmt.Sprintf("%s=%s %s %s %d", crashing, r.broker.URL, r.topology.Prefix, queue, concurrency))
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	if err := process.Start(); err != nil {
		t.Error(err)
		return false
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	deadline := time.After(rabbittest.Timeout) // while other processes end
	for {
		select {
		case <-ended:
			return true
		case <-deadline:
			_ = process.Process.Kill()
			<-ended
			t.Errorf("a process neither crashed nor handled the messages: %s", r.eventText())
			return false
		case <-time.After(20 * time.Millisecond):
		}
		if r.outcomes(queue) == messages {
			_ = process.Process.Signal(syscall.SIGTERM)
			<-ended
			return true
		}
	}
}

// A process requeues messages while it grows its prefetch, while a route is paused and
// when it loses its connection. No handler had them, so no delivery of theirs counts.
func TestRequeuedMessagesAreNotCounted(t *testing.T) {
	t.Parallel() // most of it is waiting
	const backlog = 200
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue, proxy := b.Queue(t, amqp.Table{"x-queue-type": "classic"}), b.Proxy(t)
		for i := range backlog {
			publishTo(t, b, queue, fmt.Sprint("m", i))
		}
		var calls atomic.Int32
		r := start(t, b, func(c *Config) {
			c.URL = proxy.URL
			c.Breaker = retry.Breaker{First: 100 * time.Millisecond, Cap: 400 * time.Millisecond}
			c.Routes = []Route{{Queue: queue, Concurrency: 20, Handler: handler(func(*message.Message) error {
				switch n := calls.Add(1); {
				case n > 60 && n < 80:
					return retry.Unavailable(errBroken)
				case n == 120:
					proxy.Cut()
					proxy.Mend()
				}
				time.Sleep(5 * time.Millisecond) // so that others are prefetched
				return nil
			})}}
		})
		rabbittest.Eventually(t, "all messages are handled", func() bool {
			handled := map[string]bool{} // some are handled twice
			for _, e := range r.all(ofQueue(queue, schemas.Handled)) {
				handled[string(e.Envelope.Body)] = true
			}
			return len(handled) == backlog
		})
		for _, e := range r.all(ofQueue(queue, schemas.RetryScheduled, schemas.Poisoned)) {
			if e.Failure.Type == "*pipeline.DeliveriesError" {
				t.Errorf("%s: %s", e.Action, e.Failure.Message)
			}
		}
		if n := r.log.Count("connected to the broker"); n < 4 {
			t.Errorf("%d connections, so none was lost", n)
		}
	})
}

// Another process has given messages back that no handler had, some of them more often than
// MaxDeliveries allows if the broker counts these apart. They wait for nothing.
func TestMessagesThatAnotherProcessGaveBack(t *testing.T) {
	t.Parallel() // most of it is waiting
	const backlog = 20
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, amqp.Table{"x-queue-type": "quorum"})
		for i := range backlog {
			publishTo(t, b, queue, fmt.Sprint("m", i))
		}
		giveBack(t, b, queue, backlog, 1)
		if givenBackApart(t, b, queue) {
			giveBack(t, b, queue, backlog, 10)
		}
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Concurrency: 4, Handler: handler(func(*message.Message) error { return nil })}}
		})
		r.waitFor(backlog, schemas.Handled)
		for _, e := range r.all(ofQueue(queue, schemas.RetryScheduled, schemas.Poisoned)) {
			t.Errorf("%s: %s", e.Action, e.Failure.Message)
		}
	})
}

// giveBack consumes all messages of a queue and requeues them so many times.
func giveBack(t *testing.T, b rabbittest.Broker, queue string, messages, times int) {
	t.Helper()
	for range times {
		ch := b.Channel(t)
		deliveries, err := ch.Consume(queue, "other", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range messages {
			rabbittest.Receive(t, deliveries)
		}
		if err := ch.Cancel("other", false); err != nil {
			t.Fatal(err)
		}
		if err := ch.Nack(0, true, true); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the messages are back", func() bool { return b.Len(t, queue) == messages })
		if err := ch.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// givenBackApart reports whether the broker counts deliveries that failed apart from those that were
// given back, as RabbitMQ 4.3 does.
func givenBackApart(t *testing.T, b rabbittest.Broker, queue string) bool {
	t.Helper()
	d, found, err := b.Channel(t).Get(queue, false)
	if err != nil || !found {
		t.Fatal("the queue is empty", err)
	}
	if err := d.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	_, apart := d.Headers["x-acquired-count"]
	return apart
}
