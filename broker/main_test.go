package broker_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

const patience = rabbittest.Timeout

// The suite mostly waits, so its cases run many at a time, unless it is said how
// many. What the brokers of
// parallel tests left behind can be seen at the end only.
func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if left := stillRunning(); code == 0 && len(left) > 0 {
		fmt.Printf("%d goroutines are left:\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// start runs a broker until the test ends, and then looks for what it left behind.
func start(t testing.TB, cfg broker.Config) *broker.Broker {
	t.Helper()
	b := broker.New(cfg)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		nothingRuns(t)
	})
	return b
}

// stillRunning returns the goroutines of the broker that do not end soon: one that has told its
// owner that it is done may not have returned yet.
func stillRunning() (left []string) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if left = running(); len(left) == 0 {
			return nil
		}
	}
	return left
}

// nothingRuns fails if a goroutine of the broker's is still there. Not for parallel
// tests.
func nothingRuns(t testing.TB) {
	t.Helper()
	if left := stillRunning(); len(left) > 0 {
		t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
	}
}

func running() []string {
	buffer := make([]byte, 4<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var stacks []string
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		if strings.Contains(stack, "watership/broker.(") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// connect opens a connection in process, which ends with the test.
func connect(t testing.TB, b *broker.Broker) *amqp.Connection {
	t.Helper()
	conn, err := dial(b, amqp.Config{})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func dial(b *broker.Broker, cfg amqp.Config) (*amqp.Connection, error) {
	cfg.Dial = b.Dial
	return amqp.DialConfig(b.URL(), cfg)
}

func channel(t testing.TB, conn *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("open channel: %v", err)
	}
	return ch
}

func declare(t testing.TB, ch *amqp.Channel, name string, args amqp.Table) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatalf("declare %s: %v", name, err)
	}
}

func publish(t testing.TB, ch *amqp.Channel, queue string, m amqp.Publishing) {
	t.Helper()
	if err := ch.Publish("", queue, false, false, m); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case value, ok := <-from:
		if !ok {
			t.Fatal("closed; a value was expected")
		}
		return value
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

func length(t testing.TB, ch *amqp.Channel, queue string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatalf("look at %s: %v", queue, err)
	}
	return q.Messages
}
