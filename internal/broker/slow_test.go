package broker

import (
	"io"
	"net"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A client that reads nothing does not make the broker pile up what is on its way
// to it, and does not keep others waiting.
func TestClientThatReadsNothing(t *testing.T) {
	b := New(Config{})
	defer b.Close()
	conn, err := amqp.DialConfig("amqp://guest:guest@embedded/", amqp.Config{
		Dial: func(string, string) (net.Conn, error) { return b.Dial() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	stream, err := b.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.Write(append(handshakeBytes(), consumeAll("q")...)); err != nil {
		t.Fatal(err)
	}
	consumers(t, ch, 1)
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
	if room := deliveryRoom/size + 1; q.Messages < n-room {
		t.Errorf("%d of %d messages are still in the queue, want all but %d", q.Messages, n, room)
	}
	// Once it reads, it gets everything.
	if err := stream.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, stream, n*size); err != nil {
		t.Errorf("the rest: %v", err)
	}
}

// consumers waits until the queue q has so many.
func consumers(t *testing.T, ch *amqp.Channel, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Consumers == n {
			return
		}
	}
	t.Fatal("no consumer")
}

// consumeAll opens channel 1 and consumes a queue without acknowledgements.
func consumeAll(queue string) []byte {
	b := appendMethod(nil, 1, channelOpen, func(b []byte) []byte { return append(b, 0) })
	return appendMethod(b, 1, basicConsume, func(b []byte) []byte {
		return append(appendShortstr(appendShortstr(append(b, 0, 0), queue), "t"), bit(1, true), 0, 0, 0, 0)
	})
}

// What came of a message whose client has gone does not fill the broker.
func TestClientThatGoesInAMessage(t *testing.T) {
	const part = 4000
	b := New(Config{Limits: Limits{Memory: 10 * part}})
	defer b.Close()
	open := appendMethod(handshakeBytes(), 1, channelOpen, func(b []byte) []byte { return append(b, 0) })
	half := appendMethod(open, 1, basicPublish, func(b []byte) []byte {
		return append(appendShortstr(appendShortstr(append(b, 0, 0), ""), "q"), 0)
	})
	content := appendContent(nil, 1, []byte{0, 0}, make([]byte, 2*part), part+frameOverhead)
	half = append(half, content[:len(content)-part-frameOverhead]...)
	for range 20 {
		stream, err := b.Dial()
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
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		left := len(b.connections)
		b.mu.Unlock()
		if left == 0 {
			return
		}
	}
	t.Fatal("clients are left")
}
