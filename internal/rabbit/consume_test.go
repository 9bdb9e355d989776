package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
)

// consuming runs Consume until the test ends and passes on its sessions and
// deliveries.
type consuming struct {
	sessions   chan *Session
	deliveries chan amqp.Delivery
	done       chan error
	cancel     context.CancelFunc
}

func consume(t *testing.T, c *Connection, q ConsumeConfig) *consuming {
	ctx, cancel := context.WithCancel(context.Background())
	r := &consuming{
		sessions: make(chan *Session, 100), deliveries: make(chan amqp.Delivery), done: make(chan error, 1), cancel: cancel,
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		r.done <- c.Consume(ctx, q, func(ctx context.Context, s *Session) error {
			r.sessions <- s
			for {
				select {
				case d, ok := <-s.Deliveries:
					if !ok {
						return nil
					}
					select {
					case r.deliveries <- d:
					case <-ctx.Done():
						return ctx.Err()
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
	})
	return r
}

func TestConsumeOutlivesItsSessions(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		proxy := b.Proxy(t)
		log := &rabbittest.Log{}
		c := open(t, proxy.URL, func(cfg *Config) { cfg.Logger = log.Logger() })
		p := publisher(t, open(t, b.URL, nil), 0)
		r := consume(t, c, ConsumeConfig{Queue: queue, Prefetch: 10})
		waitAll(t, sendAll(t, p, queue, 2))

		first := rabbittest.Receive(t, r.sessions)
		stale := rabbittest.Receive(t, r.deliveries)
		proxy.Cut()
		rabbittest.Eventually(t, "the end of the session", func() bool { return first.ctx.Err() != nil })
		if err := first.Ack(stale.DeliveryTag, false); !errors.Is(err, ErrSessionEnded) {
			t.Errorf("ack of a lost session: %v", err)
		}
		proxy.Mend()
		second := rabbittest.Receive(t, r.sessions)
		for range 2 { // the stale ack removed no message
			d := rabbittest.Receive(t, r.deliveries)
			if err := second.Ack(d.DeliveryTag, false); err != nil {
				t.Error(err)
			}
		}
		if n := log.Count("consumer lost"); n != 0 {
			t.Errorf("the consumer tells of the connection's loss, too:\n%s", log)
		}
	})
}

func TestDeletedQueueComesBackBySetup(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := rabbittest.Name(t)
		b.DeleteQueue(t, queue)
		log := &rabbittest.Log{}
		c := open(t, b.URL, func(cfg *Config) { cfg.Logger = log.Logger() })
		r := consume(t, c, ConsumeConfig{Queue: queue, Prefetch: 1, Setup: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
			return err
		}})
		p := publisher(t, open(t, b.URL, nil), 0)
		for i := range 3 {
			s := rabbittest.Receive(t, r.sessions)
			if err := p.Publish(testContext(t), to(queue, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			d := rabbittest.Receive(t, r.deliveries)
			if string(d.Body) != fmt.Sprint(i) || s.Ack(d.DeliveryTag, false) != nil {
				t.Errorf("got %s", d.Body)
			}
			if _, err := b.Channel(t).QueueDelete(queue, false, false, false); err != nil {
				t.Fatal(err)
			}
		}
		rabbittest.Receive(t, r.sessions)
		rabbittest.Eventually(t, "a line for each return", func() bool { return log.Count("INFO consuming again") == 3 })
		if n := log.Count("consumer lost"); n != 3 {
			t.Errorf("three losses were logged %d times:\n%s", n, log)
		}
	})
}

func TestMissingQueueIsToldOnceAndTriedForEver(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := rabbittest.Name(t)
		b.DeleteQueue(t, queue)
		log := &rabbittest.Log{}
		c := open(t, b.URL, func(cfg *Config) { cfg.Logger = log.Logger() })
		tries := make(chan struct{}, 1000)
		r := consume(t, c, ConsumeConfig{Queue: queue, Setup: func(*amqp.Channel) error {
			tries <- struct{}{}
			return nil
		}})
		for range 4 {
			rabbittest.Receive(t, tries)
		}
		if _, err := b.Channel(t).QueueDeclare(queue, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		rabbittest.Receive(t, r.sessions)
		if n := log.Count("NOT_FOUND") + log.Count("consumer lost"); n > 2 {
			t.Errorf("logged more than once:\n%s", log)
		}
	})
}

func TestChannelExceptionEndsOneSessionOnly(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		c := open(t, b.URL, nil)
		one := consume(t, c, ConsumeConfig{Queue: b.Queue(t, nil), Prefetch: 1})
		other := consume(t, c, ConsumeConfig{Queue: b.Queue(t, nil), Prefetch: 1})
		s, bystander := rabbittest.Receive(t, one.sessions), rabbittest.Receive(t, other.sessions)
		if err := s.Ack(4711, false); err != nil { // no such tag: 406
			t.Fatal(err)
		}
		rabbittest.Receive(t, one.sessions)
		if cause := context.Cause(s.ctx); !strings.Contains(cause.Error(), "PRECONDITION_FAILED") {
			t.Errorf("got %v", cause)
		}
		if bystander.ctx.Err() != nil {
			t.Error("the other session ended, too")
		}
	})
}

func TestEachDecidesWhenItIsDone(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	queue := b.Queue(t, nil)
	c := open(t, b.URL, nil)
	p := publisher(t, c, 0)
	waitAll(t, sendAll(t, p, queue, 3))
	boom := errors.New("boom")
	err := c.Consume(testContext(t), ConsumeConfig{Queue: queue, Prefetch: 3}, func(_ context.Context, s *Session) error {
		d := rabbittest.Receive(t, s.Deliveries)
		return errors.Join(s.Ack(d.DeliveryTag, false), boom)
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	rabbittest.Eventually(t, "two messages given back", func() bool { return b.Len(t, queue) == 2 })
	err = c.Consume(testContext(t), ConsumeConfig{Queue: queue, Prefetch: 3}, func(context.Context, *Session) error { return nil })
	if err != nil {
		t.Errorf("got %v", err)
	}
}

func TestCancelDrainsAndKeepsTheSession(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	queue := b.Queue(t, nil)
	c := open(t, b.URL, nil)
	p := publisher(t, c, 0)
	waitAll(t, sendAll(t, p, queue, 2))
	err := c.Consume(testContext(t), ConsumeConfig{Queue: queue, Prefetch: 10}, func(_ context.Context, s *Session) error {
		first := rabbittest.Receive(t, s.Deliveries)
		if err := s.Cancel(); err != nil {
			return err
		}
		waitAll(t, sendAll(t, p, queue, 2))
		last := first.DeliveryTag
		for d := range s.Deliveries {
			last = d.DeliveryTag
		}
		return s.Ack(last, true)
	})
	if err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "only the later messages left", func() bool { return b.Len(t, queue) == 2 })
}

// TestResumeDeliversOnce resumes while messages are unacknowledged, as a subscriber
// with busy handlers does.
func TestResumeDeliversOnce(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []string{"classic", "quorum"} {
			t.Run(kind, func(t *testing.T) {
				queue := b.Queue(t, amqp.Table{"x-queue-type": kind})
				c := open(t, b.URL, nil)
				waitAll(t, sendAll(t, publisher(t, c, 0), queue, 100))
				got := map[string]int{}
				var busy uint64
				err := c.Consume(testContext(t), ConsumeConfig{Queue: queue, Prefetch: 4, Tag: "mine"}, func(_ context.Context, s *Session) error {
					for n := range 3 {
						d := rabbittest.Receive(t, s.Deliveries)
						got[string(d.Body)]++
						busy = d.DeliveryTag
						if err := s.Cancel(); err != nil {
							return err
						}
						for d := range s.Deliveries {
							got[string(d.Body)]++
							busy = d.DeliveryTag
						}
						if err := s.Resume(100*n + 8); err != nil {
							return err
						}
					}
					for len(got) < 100 {
						d := rabbittest.Receive(t, s.Deliveries)
						got[string(d.Body)]++
						busy = d.DeliveryTag
					}
					return s.Ack(busy, true)
				})
				if err != nil {
					t.Fatal(err)
				}
				for body, times := range got {
					if times != 1 {
						t.Errorf("message %s was delivered %d times", body, times)
					}
				}
				rabbittest.Eventually(t, "an empty queue", func() bool { return b.Len(t, queue) == 0 })
			})
		}
	})
}

func TestConsumeEndsWithContextAndConnection(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	queue := b.Queue(t, nil)
	c := open(t, b.URL, nil)
	r := consume(t, c, ConsumeConfig{Queue: queue})
	rabbittest.Receive(t, r.sessions)
	r.cancel()
	if err := rabbittest.Receive(t, r.done); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r = consume(t, c, ConsumeConfig{Queue: queue})
	rabbittest.Receive(t, r.sessions)
	c.Close()
	if err := rabbittest.Receive(t, r.done); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestLargeFrames checks that a consumer receives headers that exceed the
// negotiated frame-max because the broker added x-death.
func TestLargeFrames(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		target := b.Queue(t, nil)
		source := b.Queue(t, amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target, "x-message-ttl": 1})
		p := publisher(t, open(t, b.URL, nil), 0)
		m := to(source, "x")
		m.Publishing.Headers = amqp.Table{"h": strings.Repeat("x", 130_900)}
		if err := p.Publish(testContext(t), m); err != nil {
			t.Fatal(err)
		}
		c := open(t, b.URL, func(cfg *Config) { cfg.LargeFrames = true })
		r := consume(t, c, ConsumeConfig{Queue: target, Prefetch: 1})
		s, d := rabbittest.Receive(t, r.sessions), rabbittest.Receive(t, r.deliveries)
		if size := wire.HeaderFrameSize(amqp.Publishing{Headers: d.Headers}); size <= 131_072 {
			t.Errorf("headers of %d bytes show nothing", size)
		}
		if err := s.Ack(d.DeliveryTag, false); err != nil {
			t.Error(err)
		}
		conn, _, _ := c.await(testContext(t))
		if conn.Config.FrameSize != 16<<20 {
			t.Errorf("frame size %d", conn.Config.FrameSize)
		}
	})
}

func TestServerNamedQueue(t *testing.T) {
	b := rabbittest.Newest(t)
	c := open(t, b.URL, nil)
	var name string
	r := consume(t, c, ConsumeConfig{Setup: func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclare("", false, true, true, false, nil)
		name = q.Name
		return err
	}})
	rabbittest.Receive(t, r.sessions)
	if err := publisher(t, c, 0).Publish(testContext(t), to(name, "x")); err != nil {
		t.Fatal(err)
	}
	rabbittest.Receive(t, r.deliveries)
}
