package wire

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/wiretest"
)

// The size of a header frame is the size that the client sends, for messages with every
// property and every type of header.
func TestHeaderFrameSizeIsTheClients(t *testing.T) {
	sent := make(chan int, 1)
	channel := dialSizes(t, sent)
	random := rand.New(rand.NewPCG(101, 0))
	messages := []amqp.Publishing{{}, wiretest.EveryEnvelope().Publishing(), {Headers: amqp.Table{}}, {Headers: amqp.Table{"": nil}}, {Timestamp: time.Unix(0, 0)}}
	for range 200 {
		data := make([]byte, random.IntN(400))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		p := amqp.Publishing{Headers: (&wiretest.TableMaker{Data: data}).Table(0)}
		if random.IntN(2) == 0 {
			p.ContentType, p.ReplyTo, p.Priority = strings.Repeat("c", random.IntN(256)), strings.Repeat("r", random.IntN(256)), uint8(random.IntN(10))
		}
		if random.IntN(2) == 0 {
			p.MessageId, p.DeliveryMode, p.Timestamp = strings.Repeat("m", random.IntN(256)), uint8(random.IntN(3)), time.Unix(random.Int64N(1e9), 0)
		}
		messages = append(messages, p)
	}
	for _, p := range messages {
		if err := channel.PublishWithContext(t.Context(), "", "q", false, false, p); err != nil {
			t.Fatal(err)
		}
		if got, want := <-sent, HeaderFrameSize(p); got != want {
			t.Fatalf("%+v: %d bytes were sent, not %d", p, got, want)
		}
	}
}

// dialSizes returns a channel to a server that sends the size of each header frame.
func dialSizes(t *testing.T, sizes chan<- int) *amqp.Channel {
	t.Helper()
	client, server := net.Pipe()
	go serveSizes(server, sizes)
	connection, err := amqp.Open(client, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{}}, Heartbeat: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

// serveSizes speaks as much of AMQP 0-9-1 as a client needs to publish.
func serveSizes(conn net.Conn, sizes chan<- int) {
	defer close(sizes)
	answer := func(channel uint16, method string) {
		frame := binary.BigEndian.AppendUint16([]byte{1}, channel)
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(method)))
		_, _ = conn.Write(append(append(frame, method...), 0xce))
	}
	if _, err := io.ReadFull(conn, make([]byte, len("AMQP\x00\x00\x09\x01"))); err != nil {
		return
	}
	answer(0, "\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US") // connection.start
	for {
		head := make([]byte, 7)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		switch {
		case head[0] == 2:
			sizes <- len(head) + len(payload)
		case head[0] != 1:
		case string(payload[:4]) == "\x00\x0a\x00\x0b": // start-ok
			answer(0, "\x00\x0a\x00\x1e\x00\x00\x00\x02\x00\x00\x00\x00") // tune
		case string(payload[:4]) == "\x00\x0a\x00\x28": // connection.open
			answer(0, "\x00\x0a\x00\x29\x00")
		case string(payload[:4]) == "\x00\x14\x00\x0a": // channel.open
			answer(binary.BigEndian.Uint16(head[1:]), "\x00\x14\x00\x0b\x00\x00\x00\x00")
		}
	}
}
