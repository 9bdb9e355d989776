package amqpstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// contentOf returns a content header frame with all properties, the headers, and the size of
// a body.
func contentOf(table []byte, flags uint16, bodySize uint64) []byte {
	payload := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, bodySize)
	payload = binary.BigEndian.AppendUint16(payload, flags)
	for flag := uint16(flagContentType); flag >= flagAppID; flag >>= 1 {
		switch {
		case flags&flag == 0:
		case flag == flagHeaders:
			payload = append(payload, longText(string(table))...)
		case flag == flagDeliveryMode, flag == flagPriority:
			payload = append(payload, 7)
		case flag == flagTimestamp:
			payload = binary.BigEndian.AppendUint64(payload, 1760000000)
		default:
			payload = append(payload, shortText(fmt.Sprintf("property %x", flag))...)
		}
	}
	frame := binary.BigEndian.AppendUint32([]byte{frameContent, 0, 1}, uint32(len(payload)))
	return append(append(frame, payload...), frameEndByte)
}

const allProperties = 0xFFF8

func bodyFrame(channel byte, body string) []byte {
	return append(append(onChannel(channel, []byte{frameBody, 0, 0}), longText(body)...), frameEndByte)
}

// everyType has a header of each field type.
func everyType() []byte {
	eight := "\x81\x02\x03\x04\x05\x06\x07\x08"
	return wireTable(
		"S", ofLength('S', []byte("text")), "S empty", ofLength('S', nil), "x", ofLength('x', []byte{0, 255}), "x empty", ofLength('x', nil),
		"V", "V", "t", "t\x01", "f", "t\x00", "b", "b\xff", "B", "B\xff", "s", "s\xff\xfe", "u", "u\xff\xfe", "I", "I"+eight[:4], "i", "i"+eight[:4],
		"l", "l"+eight, "float", "f"+eight[:4], "d", "d"+eight, "T", "T\x00\x00\x00\x00\x69\x00\x00\x00", "D", "D\x02"+eight[:4],
		"F", ofLength('F', wireTable("nested", "V")), "F empty", ofLength('F', nil),
		"A", ofLength('A', []byte("Vt\x01"+ofLength('F', wireTable("a", ofLength('A', nil))))), "twice", "V", "twice", "t\x01",
	)
}

// FuzzConsumer checks that a Consumer has the deliveries that the client library would have.
func FuzzConsumer(f *testing.F) {
	f.Add(everyType(), uint16(allProperties))
	f.Add(deep(32), uint16(flagHeaders))
	f.Add(deep(40), uint16(flagHeaders|flagMessageID))
	f.Add(wireTable("a", "Z", "b", "V"), uint16(flagHeaders|flagContentEncoding|flagAppID))
	f.Add([]byte(nil), uint16(0))
	f.Add([]byte(nil), uint16(flagHeaders))
	var s *fakeServer
	var own *Consumer
	f.Fuzz(func(t *testing.T, table []byte, flags uint16) {
		if s == nil {
			s = startFakeServer(t)
			own = s.stream.Consumer("own", s.ch)
		}
		frame := contentOf(table, flags&allProperties, 0)
		if _, err := s.to.Write(append(deliverFrame("own", 1), frame...)); err != nil {
			t.Fatal(err)
		}
		want, err := s.deliver(slices.Clone(frame))
		if err != nil {
			s = nil
			t.Skip() // the client library cannot decode it
		}
		<-own.Ready()
		got := own.Take(nil)
		if len(got) != 1 {
			t.Fatalf("got %d deliveries", len(got))
		}
		want.ConsumerTag, want.DeliveryTag = "own", 1
		if !equal(reflect.ValueOf(got[0]), reflect.ValueOf(want)) {
			t.Fatalf("got %#v\nwant %#v", got[0], want)
		}
	})
}

// equal is reflect.DeepEqual, but NaN equals itself.
func equal(a, b reflect.Value) bool {
	if a.IsValid() && b.IsValid() && a.Type() == reflect.TypeFor[amqp.Delivery]() {
		x, y := a.Interface().(amqp.Delivery), b.Interface().(amqp.Delivery)
		if !equal(reflect.ValueOf(x.Headers), reflect.ValueOf(y.Headers)) || (x.Headers == nil) != (y.Headers == nil) {
			return false
		}
		x.Headers, y.Headers = nil, nil
		return reflect.DeepEqual(x, y)
	}
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return a.IsValid() == b.IsValid()
	}
	switch x := a.Interface().(type) {
	case float32:
		return math.Float32bits(x) == math.Float32bits(b.Interface().(float32))
	case float64:
		return math.Float64bits(x) == math.Float64bits(b.Interface().(float64))
	case amqp.Table:
		y := b.Interface().(amqp.Table)
		for name := range x {
			if _, present := y[name]; !present || !equal(reflect.ValueOf(x[name]), reflect.ValueOf(y[name])) {
				return false
			}
		}
		return len(x) == len(y)
	case []any:
		y := b.Interface().([]any)
		for i := range x {
			if i >= len(y) || !equal(reflect.ValueOf(x[i]), reflect.ValueOf(y[i])) {
				return false
			}
		}
		return len(x) == len(y) && (x == nil) == (y == nil)
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// TestDeliveriesAreTaken splits a stream at every offset: deliveries of the consumer are
// taken, and the client library reads the rest.
func TestDeliveriesAreTaken(t *testing.T) {
	start := append(methodFrame(classConnection, 10), tune(methodTune, 0)...)
	content := contentOf(wireTable("a", "V"), flagHeaders, 10)
	foreign := slices.Concat(deliverFrame("another", 9), contentOf(nil, 0, 3), bodyFrame(1, "xyz"))
	otherChannel := slices.Concat(onChannel(2, methodFrame(90, 11)), bodyFrame(2, "other"))
	heartbeat := []byte(heartbeat)
	in := slices.Concat(start,
		deliverFrame("own", 1), content, bodyFrame(1, "hello"), otherChannel, bodyFrame(1, ""), heartbeat, bodyFrame(1, "world"),
		foreign, deliverFrame("own", 2), contentOf(nil, 0, 0), deliverFrame("own", 3), content, bodyFrame(1, "incom"), foreign,
		deliverFrame("own", 4), contentOf(deep(40), flagHeaders, 2), bodyFrame(1, "hi"))
	want := slices.Concat(start, otherChannel, heartbeat, foreign, foreign)
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
		"with the end": iotest.DataErrReader,
	} {
		c := New(&scripted{in: reader(bytes.NewReader(in))}, false)
		own := c.Consumer("own", nil)
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the client reads %q, %v, want %q", name, got, err, want)
		}
		var bodies []string
		for _, d := range own.Take(nil) {
			bodies = append(bodies, fmt.Sprintf("%d %t %s %s %s %d %s", d.DeliveryTag, d.Redelivered, d.Exchange, d.RoutingKey, d.ConsumerTag, len(d.Headers), d.Body))
		}
		if wanted := []string{"1 true exchange key own 1 helloworld", "2 true exchange key own 0 ", "4 true exchange key own 1 hi"}; !slices.Equal(bodies, wanted) {
			t.Errorf("%s: got %q, want %q", name, bodies, wanted)
		}
	}
}

func TestMalformedDeliveries(t *testing.T) {
	start := tune(methodTune, 0)
	deliver, content, body := deliverFrame("own", 1), contentOf(everyType(), allProperties, 1), bodyFrame(1, "b")
	without := func(frame []byte) []byte { return append(slices.Clone(frame[:len(frame)-1]), 0) }
	short := func(frame []byte, n int) []byte {
		cut := append(slices.Clone(frame[:len(frame)-1-n]), frameEndByte)
		binary.BigEndian.PutUint32(cut[3:], uint32(len(cut)-frameHeader-frameEnd))
		return cut
	}
	for name, in := range map[string][]byte{
		"end of the method": without(deliver), "short method": short(deliver, 3),
		"end of the content": slices.Concat(deliver, without(content)), "short content": slices.Concat(deliver, short(content, 5)),
		"end of the body": slices.Concat(deliver, content, without(body)),
	} {
		c := New(&scripted{in: bytes.NewReader(append(start, in...))}, false)
		own := c.Consumer("own", nil)
		if _, err := io.ReadAll(c); !errors.Is(err, errMalformed) || !errors.Is(c.ReadError(), errMalformed) {
			t.Errorf("%s: %v, %v", name, err, c.ReadError())
		}
		if got := own.Take(nil); len(got) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestConsumersHaveTagsOfTheirOwn(t *testing.T) {
	c := New(&scripted{in: bytes.NewReader(nil)}, false)
	first, second := c.Consumer("tag", nil), c.Consumer("tag", nil)
	first.Close()
	if third := c.Consumer("tag", nil); first.Tag != "tag" || second.Tag != "tag-1" || third.Tag != "tag-2" {
		t.Errorf("got %s, %s and %s", first.Tag, second.Tag, third.Tag)
	}
}

func TestClosedConsumer(t *testing.T) {
	later := slices.Concat(deliverFrame("own", 2), contentOf(nil, 0, 0))
	in := slices.Concat(tune(methodTune, 0), deliverFrame("own", 1), contentOf(nil, 0, 1))
	reader, writer := io.Pipe()
	c := New(&scripted{in: reader}, false)
	own := c.Consumer("own", nil)
	read := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(c)
		read <- all
	}()
	_, _ = writer.Write(in)
	_, _ = writer.Write([]byte(heartbeat)) // once it is read, the frames before are taken
	own.Close()
	_, _ = writer.Write(append(bodyFrame(1, "b"), later...))
	writer.Close()
	if got, want := <-read, slices.Concat(tune(methodTune, 0), []byte(heartbeat), later); !bytes.Equal(got, want) {
		t.Errorf("the client reads %q, want %q", got, want)
	}
	if got := own.Take(nil); len(got) > 0 {
		t.Errorf("got %+v", got)
	}
}

// The client library closes a connection from which it reads nothing for a time.
func TestDeliveriesCountAsHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		c := New(&scripted{in: reader}, false)
		own := c.Consumer("own", nil)
		go func() {
			_, _ = writer.Write(tune(methodTune, 0))
			for range 35 {
				_, _ = writer.Write(slices.Concat(deliverFrame("own", 1), contentOf(nil, 0, 0)))
				time.Sleep(100 * time.Millisecond)
			}
			writer.Close()
		}()
		got, err := io.ReadAll(c)
		if want := append(tune(methodTune, 0), bytes.Repeat([]byte(heartbeat), 3)...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the client reads %q, %v, want %q", got, err, want)
		}
		if deliveries := own.Take(nil); len(deliveries) != 35 {
			t.Errorf("got %d deliveries", len(deliveries))
		}
	})
}

// BenchmarkDeliveries compares the deliveries of a Consumer with those of the client library.
// The messages have 1 KiB and eight headers of several types.
func BenchmarkDeliveries(b *testing.B) {
	table := wireTable(
		"x-tenant", ofLength('S', []byte("t17")), "x-source", ofLength('S', []byte("billing-service")), "x-test", "t\x01",
		"x-trace-id", ofLength('S', []byte("0000000000000000000000000001eef7")), "x-attempt", "l\x00\x00\x00\x00\x00\x00\x00\x03",
		"x-size", "I\x00\x00\x04\x11", "x-produced-at", "T\x00\x00\x00\x00\x69\x00\x00\x00",
		"x-origin", ofLength('F', wireTable("region", ofLength('S', []byte("eu-west-1")), "zone", "l\x00\x00\x00\x00\x00\x00\x00\x02", "canary", "t\x00")))
	const flags = flagContentType | flagHeaders | flagDeliveryMode | flagCorrelationID | flagMessageID | flagTimestamp | flagType | flagAppID
	const chunk = 100 // messages
	messages := func(consumer string) []byte {
		return bytes.Repeat(slices.Concat(deliverFrame(consumer, 1), contentOf(table, flags, 1024), bodyFrame(1, string(make([]byte, 1024)))), chunk)
	}
	b.Run("client", func(b *testing.B) {
		s := startFakeServer(b)
		all := messages("tag")
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if n%chunk == 0 {
				go func() { _, _ = s.to.Write(all) }()
			}
			<-s.deliveries
		}
	})
	b.Run("consumer", func(b *testing.B) {
		s := startFakeServer(b)
		own, all := s.stream.Consumer("own", s.ch), messages("own")
		var taken []amqp.Delivery
		b.ReportAllocs()
		for n, left := 0, 0; b.Loop(); n, left = n+1, left-1 {
			if n%chunk == 0 {
				go func() { _, _ = s.to.Write(all) }()
			}
			for left == 0 {
				<-own.Ready()
				taken = own.Take(taken)
				left = len(taken)
			}
		}
	})
}
