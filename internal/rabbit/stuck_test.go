package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// slow limits the bandwidth to the broker to 1 KB/s, so that writes block.
const slow = `{"name":"slow","type":"bandwidth","stream":"upstream","attributes":{"rate":1}}`

// TestVanishedPeerIsReplacedInMidWrite checks that a write to a vanished peer does
// not wait minutes for the operating system's timeout.
func TestVanishedPeerIsReplacedInMidWrite(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		proxy := b.Proxy(t)
		by, err := amqp.ParseURI(proxy.URL)
		if err != nil {
			t.Fatal(err)
		}
		first := make(chan string, 1)
		first <- fmt.Sprintf("%s:%d", by.Host, by.Port)
		c := open(t, b.URL, func(cfg *Config) {
			cfg.Heartbeat = time.Second
			cfg.Dial = func(network, addr string) (net.Conn, error) {
				select {
				case addr = <-first:
				default:
				}
				return net.Dial(network, addr)
			}
		})
		p := publisher(t, c, 0)
		waitAll(t, sendAll(t, p, queue, 1))
		proxy.Add(slow)
		proxy.Add(`{"name":"mute","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
		large := to(queue, "large")
		large.Publishing.Body = make([]byte, 15<<20)
		sent, err := p.Send(testContext(t), large)
		if err != nil {
			t.Fatal(err)
		}
		waitAll(t, []*Pending{sent})
	})
}

// TestNothingWaitsForAWriteThatIsStuck checks other calls during a blocked write: a
// broker short of memory stops reading in the middle of a message.
func TestNothingWaitsForAWriteThatIsStuck(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		proxy := b.Proxy(t)
		c := open(t, proxy.URL, func(cfg *Config) { cfg.Heartbeat = time.Hour })
		p := NewPublisher(c, PublisherConfig{StopTimeout: 50 * time.Millisecond})
		waitAll(t, sendAll(t, p, queue, 1))
		proxy.Add(slow)
		large := to(queue, "large")
		large.Publishing.Body = make([]byte, 15<<20)
		sent, err := p.Send(testContext(t), large)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		for range 5 { // the first may still be written
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			go func() { done <- c.Do(ctx, func(ch *amqp.Channel) error { return ch.Qos(1, 0, false) }) }()
			if err := rabbittest.Receive(t, done); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		go func() { done <- p.Close() }()
		if err := rabbittest.Receive(t, done); err == nil || !strings.Contains(err.Error(), "1 messages") {
			t.Errorf("got %v", err)
		}
		if err := sent.Wait(testContext(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		go func() { done <- c.Close() }()
		if err := rabbittest.Receive(t, done); err != nil {
			t.Error(err)
		}
	})
}
