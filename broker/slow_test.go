package broker

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// patience is rabbittest.Timeout, which imports this package.
const patience = 2 * time.Minute

// A client that reads nothing does not make the broker pile up what is on its way
// to it, and does not keep others waiting.
func TestClientThatReadsNothing(t *testing.T) {
	b := New(Config{})
	defer b.Close()
	ch := channelOf(t, b)
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	stream, err := b.Dial("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.Write(append(handshakeBytes(), consumeAll("q", true)...)); err != nil {
		t.Fatal(err)
	}
	awaitQueue(t, ch, func(q amqp.Queue) bool { return q.Consumers == 1 })
	const n, size = 100, 100_000
	for range n {
		if err := ch.Publish("", "q", false, false, amqp.Publishing{Body: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	// One batch is being written, and the next one waits.
	if room := 2 * (deliveryRoom/size + 1); q.Messages < n-room {
		t.Errorf("%d of %d messages are still in the queue, want all but %d", q.Messages, n, room)
	}
	// Once it reads, it gets everything.
	if err := stream.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, stream, n*size); err != nil {
		t.Errorf("the rest: %v", err)
	}
}

// awaitQueue waits until the queue q is as it should be.
func awaitQueue(t *testing.T, ch *amqp.Channel, ready func(amqp.Queue) bool) {
	t.Helper()
	var q amqp.Queue
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var err error
		if q, err = ch.QueueDeclarePassive("q", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if ready(q) {
			return
		}
	}
	t.Fatalf("the queue has %d messages and %d consumers", q.Messages, q.Consumers)
}

// consumeAll opens channel 1 and consumes a queue.
func consumeAll(queue string, noAck bool) []byte {
	b := appendMethod(nil, 1, channelOpen, func(b []byte) []byte { return append(b, 0) })
	return appendMethod(b, 1, basicConsume, func(b []byte) []byte {
		return append(appendShortstr(appendShortstr(append(b, 0, 0), queue), "t"), bit(1, noAck), 0, 0, 0, 0)
	})
}

// channelOf opens a channel on a connection of its own, which ends with the test.
func channelOf(t *testing.T, b *Broker) *amqp.Channel {
	t.Helper()
	conn, err := amqp.DialConfig("amqp://guest:guest@embedded/", amqp.Config{
		Dial: b.Dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// A client that goes while it is blocked, and without heartbeats, gives back the
// messages that it had, which may be all that keeps the broker full.
func TestClientThatGoesWhileBlocked(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	b := New(Config{Limits: Limits{Memory: size}})
	defer b.Close()
	address, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ch, filler := channelOf(t, b), channelOf(t, b)
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := filler.Publish("", "q", false, false, amqp.Publishing{Body: make([]byte, size)}); err != nil {
		t.Fatal(err)
	}
	stream, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, stream) }()
	if _, err := stream.Write(append(handshakeBytes(), consumeAll("q", false)...)); err != nil {
		t.Fatal(err)
	}
	awaitQueue(t, ch, func(q amqp.Queue) bool { return q.Consumers == 1 && q.Messages == 0 })
	if err := stream.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	for err == nil { // the broker stops reading, and so more and more is on its way
		_, err = stream.Write(publishTo("q", make([]byte, size), 128<<10))
	}
	stream.Close()
	awaitQueue(t, ch, func(q amqp.Queue) bool { return q.Consumers == 0 && q.Messages > 0 })
}

// publishTo publishes a message on channel 1.
func publishTo(queue string, body []byte, frameMax uint32) []byte {
	return appendContent(appendPublish(nil, 1, queue), 1, []byte{0, 0}, body, frameMax)
}

func appendPublish(b []byte, channel uint16, queue string) []byte {
	return appendMethod(b, channel, basicPublish, func(b []byte) []byte {
		return append(appendShortstr(appendShortstr(append(b, 0, 0), ""), queue), 0)
	})
}

// What came of a message whose client has gone does not fill the broker.
func TestClientThatGoesInAMessage(t *testing.T) {
	const part = 4000
	b := New(Config{Limits: Limits{Memory: 10 * part}})
	defer b.Close()
	open := appendMethod(handshakeBytes(), 1, channelOpen, func(b []byte) []byte { return append(b, 0) })
	whole := publishTo("q", make([]byte, 2*part), part+frameOverhead)
	half := append(open, whole[:len(whole)-part-frameOverhead]...)
	for range 20 {
		stream, err := b.Dial("", "")
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, stream)
		}()
		if _, err := stream.Write(half); err != nil {
			t.Fatal(err)
		}
		stream.Close()
		<-read
	}
	alone(t, b)
	if held := b.memory.used.Load(); held != 0 {
		t.Errorf("%d bytes are held for clients that have gone", held)
	}
}

// alone waits until a broker's clients have gone.
func alone(t *testing.T, b *Broker) {
	t.Helper()
	await(t, "the clients have gone", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.connections) == 0
	})
}

func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ready() {
			return
		}
	}
	t.Fatalf("%s: not so", what)
}

// Headers without their bodies count, on however many channels.
func TestHeadersWithoutBodies(t *testing.T) {
	const limit, size = 500_000, 100_000
	b := New(Config{Limits: Limits{Memory: limit}})
	defer b.Close()
	stream := rawClient(t, b)
	var p properties
	p.setHeaders(table(nil).withText("h", strings.Repeat("x", size)))
	go func() {
		for id := uint16(1); id <= 10; id++ {
			open := appendMethod(nil, id, channelOpen, func(b []byte) []byte { return append(b, 0) })
			whole := appendContent(appendPublish(open, id, "q"), id, p.encode(), []byte("x"), frameMinSize)
			if _, err := stream.Write(whole[:len(whole)-frameOverhead-1]); err != nil {
				return
			}
		}
	}()
	await(t, "the memory limit is reached", func() bool { return b.memory.used.Load() > limit })
	if used := b.memory.used.Load(); used > limit+2*size {
		t.Errorf("%d bytes are kept", used)
	}
}

// rawClient is a connection whose handshake is done, which reads everything and
// ends with the test.
func rawClient(t *testing.T, b *Broker) net.Conn {
	t.Helper()
	stream, err := b.Dial("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	go func() { _, _ = io.Copy(io.Discard, stream) }()
	if _, err := stream.Write(handshakeBytes()); err != nil {
		t.Fatal(err)
	}
	return stream
}

// Publishers whose messages have come in part, and that together are too much, are
// let through one after another.
func TestUnfinishedMessagesFillTheBroker(t *testing.T) {
	t.Parallel()
	const clients, part = 4, 100_000
	b := New(Config{Limits: Limits{Memory: 3 * part}})
	defer b.Close()
	ch := channelOf(t, b)
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	open := appendMethod(nil, 1, channelOpen, func(b []byte) []byte { return append(b, 0) })
	whole := append(open, publishTo("q", make([]byte, 3*part), part+frameOverhead)...)
	begun := len(whole) - 2*(part+frameOverhead)
	first, rest := whole[:begun], whole[begun:]
	full := make(chan struct{})
	for range clients {
		stream := rawClient(t, b)
		go func() {
			_, _ = stream.Write(first)
			<-full
			_, _ = stream.Write(rest)
		}()
	}
	await(t, "the memory limit is reached", func() bool { return b.memory.used.Load() > 3*part })
	close(full)
	deliveries, err := ch.Consume("q", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range clients {
		select {
		case <-deliveries:
		case <-time.After(patience):
			t.Fatalf("%d of %d messages came", i, clients)
		}
	}
}
