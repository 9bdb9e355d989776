package rabbit

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// injecting is a stream to a real broker into which a test injects the broker's
// method frames: a real alarm would block all other tests.
type injecting struct {
	net.Conn
	inject chan []byte
	frames chan []byte
	unread []byte
}

// Frames (AMQP 0-9-1 §4.2.3), and the class connection.
const (
	frameHeader     = 7
	frameMethod     = 1
	classConnection = 10
)

func newInjecting(conn net.Conn) *injecting {
	c := &injecting{Conn: conn, inject: make(chan []byte, 1), frames: make(chan []byte)}
	go func() {
		defer close(c.frames)
		for {
			frame := make([]byte, frameHeader)
			if _, err := io.ReadFull(conn, frame); err != nil {
				return
			}
			frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame[3:])+1)...)
			if _, err := io.ReadFull(conn, frame[frameHeader:]); err != nil {
				return
			}
			c.frames <- frame
		}
	}()
	return c
}

func (c *injecting) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		var ok bool
		select {
		case c.unread, ok = <-c.frames:
		case c.unread, ok = <-c.inject:
		}
		if !ok {
			return 0, io.EOF
		}
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// Close closes the stream and unblocks the reading goroutine.
func (c *injecting) Close() error {
	err := c.Conn.Close()
	go func() {
		for range c.frames {
		}
	}()
	return err
}

// blockedFrame returns connection.blocked with a reason, or connection.unblocked
// (https://www.rabbitmq.com/docs/connection-blocked).
func blockedFrame(reason string) []byte {
	arguments := []byte{0, classConnection, 0, 61}
	if reason != "" {
		arguments = append([]byte{0, classConnection, 0, 60, byte(len(reason))}, reason...)
	}
	frame := []byte{frameMethod, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(arguments)))
	return append(append(frame, arguments...), 0xCE)
}

func TestBlockedConnectionIsWaitedForAndToldOnce(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	queue := b.Queue(t, nil)
	log := &rabbittest.Log{}
	streams := make(chan *injecting, 1)
	c := open(t, b.URL, func(cfg *Config) {
		cfg.Logger = log.Logger()
		cfg.Dial = func(network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			if err != nil {
				return nil, err
			}
			stream := newInjecting(conn)
			streams <- stream
			return stream, nil
		}
	})
	p := publisher(t, c, 10)
	if err := p.Publish(testContext(t), to(queue, "0")); err != nil {
		t.Fatal(err)
	}
	stream := rabbittest.Receive(t, streams)
	stream.inject <- blockedFrame("low on memory")
	stream.inject <- blockedFrame("low on disk") // another alarm during the first
	rabbittest.Eventually(t, "both alarms", func() bool { return log.Count("takes no messages") == 1 && len(stream.inject) == 0 })

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Publish(ctx, to(queue, "never")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while blocked: %v", err)
	}
	published := make(chan error, 1)
	go func() { published <- p.Publish(testContext(t), to(queue, "1")) }()
	stream.inject <- blockedFrame("")
	if err := rabbittest.Receive(t, published); err != nil {
		t.Errorf("after it: %v", err)
	}
	if log.Count("takes no messages") != 1 || log.Count("takes messages again") != 1 {
		t.Errorf("logged more than once:\n%s", log)
	}
	for i, d := range b.Take(t, queue, 2) { // the message given up was not published
		if !strings.HasPrefix(string(d.Body), string(rune('0'+i))) {
			t.Errorf("got %s", d.Body)
		}
	}
}
