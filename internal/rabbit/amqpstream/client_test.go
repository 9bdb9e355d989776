package amqpstream

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// fakeServer is a minimal AMQP server that delivers messages to the client library
// through a Conn.
type fakeServer struct {
	to         net.Conn
	stream     *Conn
	client     *amqp.Connection
	ch         *amqp.Channel
	deliveries <-chan amqp.Delivery
	closed     <-chan *amqp.Error
	tag        uint64
}

func shortText(s string) []byte { return append([]byte{byte(len(s))}, s...) }

func longText(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

func onChannel(n byte, frame []byte) []byte {
	frame[2] = n
	return frame
}

// reply returns the reply to a method of the client, nil for none.
func reply(class, method uint16) []byte {
	switch uint32(class)<<16 | uint32(method) {
	case 10<<16 | 11: // start-ok
		return tune(methodTune, 131072)
	case 10<<16 | 40: // open
		return methodFrame(classConnection, 41, 0)
	case 10<<16 | 50: // close
		return methodFrame(classConnection, 51)
	case 20<<16 | 10: // channel.open
		return onChannel(1, methodFrame(20, 11, 0, 0, 0, 0))
	case 60<<16 | 20: // basic.consume
		return onChannel(1, methodFrame(60, 21, shortText("tag")...))
	}
	return nil
}

func serve(server net.Conn) {
	greeting := make([]byte, 8)
	if _, err := io.ReadFull(server, greeting); err != nil {
		return
	}
	start := append([]byte{0, 9, 0, 0, 0, 0}, longText("PLAIN")...)
	_, _ = server.Write(methodFrame(classConnection, 10, append(start, longText("en_US")...)...))
	for {
		frame := make([]byte, frameHeader)
		if _, err := io.ReadFull(server, frame); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(frame[3:])+1)
		if _, err := io.ReadFull(server, payload); err != nil {
			return
		}
		if frame[0] == frameMethod {
			_, _ = server.Write(reply(binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])))
		}
	}
}

func startFakeServer(t testing.TB) *fakeServer {
	t.Helper()
	client, server := net.Pipe()
	go serve(server)
	s := &fakeServer{to: server, stream: New(client, true)}
	var err error
	if s.client, err = amqp.Open(s.stream, amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{}}, FrameSize: amqp.FrameSizeUnlimited,
	}); err != nil {
		t.Fatal(err)
	}
	if s.ch, err = s.client.Channel(); err != nil {
		t.Fatal(err)
	}
	s.closed = s.ch.NotifyClose(make(chan *amqp.Error, 1))
	if s.deliveries, err = s.ch.Consume("queue", "tag", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

var errClientClosed = errors.New("the client has closed the connection")

// deliverFrame is a deliver method for a consumer.
func deliverFrame(consumer string, tag uint64) []byte {
	arguments := binary.BigEndian.AppendUint64(shortText(consumer), tag)
	arguments = append(append(append(arguments, 1), shortText("exchange")...), shortText("key")...)
	return onChannel(1, methodFrame(classBasic, methodDeliver, arguments...))
}

// deliver sends a message with a content header and no body.
func (s *fakeServer) deliver(content []byte) (amqp.Delivery, error) {
	s.tag++
	if _, err := s.to.Write(append(deliverFrame("tag", s.tag), content...)); err != nil {
		return amqp.Delivery{}, err
	}
	select {
	case d, ok := <-s.deliveries:
		if ok {
			return d, nil
		}
	case reason := <-s.closed:
		return amqp.Delivery{}, errors.Join(errClientClosed, reason)
	}
	return amqp.Delivery{}, errClientClosed
}

// FuzzClientDecodes checks that the client library can decode every message that
// passed through a Conn, with all headers that were kept, and can publish it again
// if its table was well-formed.
func FuzzClientDecodes(f *testing.F) {
	for _, table := range [][]byte{
		nil, deep(3), deep(31), deep(32), deep(33), deep(40), wireTable("a", "Z"), wireTable("a", ofLength('A', []byte("VVt\x01"))),
		wireTable("a", ofLength('A', []byte("s\x00"))), wireTable("a", "x\xff\xff\xff\xff"), wireTable("a", "S\x80\x00\x00\x00"),
		wireTable("", "V", "", "V"), wireTable("CC", ofLength('A', []byte(ofLength('S', []byte("q"))+"Z"))),
		wireTable("a", ofLength('A', []byte(strings.Repeat("V", 8193)))),
		wireTable("a", ofLength('F', wireTable("t", "T\xff\xff\xff\xff\xff\xff\xff\xff", "D", "D\xff\xff\xff\xff\xff"))),
	} {
		f.Add(table)
	}
	var s *fakeServer
	f.Fuzz(func(t *testing.T, table []byte) {
		if s == nil {
			s = startFakeServer(t)
		}
		frame := contentFrame(table)
		d, err := s.deliver(slices.Clone(frame))
		if err != nil {
			s = nil
			t.Fatalf("%v: %q", err, table)
		}
		if d.ContentType != "text" || d.MessageId != "id" {
			t.Fatalf("%+v", d)
		}
		seen := frame
		if changed := stash(frame); changed != nil {
			seen = changed
		}
		names := map[string]bool{}
		eachEntry(tableOf(t, seen), func(e entry) { names[string(e.name)] = true })
		if len(names) != len(d.Headers) {
			t.Fatalf("the client has %d headers of %d", len(d.Headers), len(names))
		}
		if stashed, present := d.Headers[UnreadableHeaders]; present && CheckUnreadable(stashed) != nil {
			if wellFormed(table) {
				t.Fatalf("cannot be published again: %v", CheckUnreadable(stashed))
			}
			return
		}
		if err := s.ch.Publish("", "queue", false, false, amqp.Publishing{Headers: d.Headers}); err != nil {
			t.Fatalf("published again: %v", err)
		}
	})
}

// wellFormed reports whether a table is well-formed apart from unknown field types.
func wellFormed(table []byte) bool {
	valid := true
	end := eachEntry(table, func(e entry) { valid = valid && checkValue(e.kind, e.content, len(table), len(table)) != malformed })
	return valid && len(end) == 0
}

func TestFakeServer(t *testing.T) {
	rabbittest.NoLeaks(t)
	s := startFakeServer(t)
	d, err := s.deliver(contentFrame(wireTable("a", "V", "b", ofLength('F', deep(40)))))
	if err != nil || len(d.Headers) != 2 || d.DeliveryTag != 1 || d.Exchange != "exchange" {
		t.Errorf("%+v, %v", d, err)
	}
	if err := s.client.Close(); err != nil {
		t.Error(err)
	}
	s.to.Close()
}
