package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
)

func TestPublishConfirmsAndReturns(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		p := publisher(t, open(t, b.URL, nil), 100)
		// Half of the messages match a queue and half do not, mixed on one channel.
		var calls sync.WaitGroup
		for i := range 500 {
			calls.Go(func() {
				if err := p.Publish(testContext(t), to(queue, fmt.Sprint(i))); err != nil {
					t.Errorf("routed message: %v", err)
				}
			})
			calls.Go(func() {
				m := to(queue+".missing", fmt.Sprint(i%7)) // many are identical
				m.Publishing.Headers = amqp.Table{"n": i % 3, "when": time.Unix(100, 5), "list": []any{int64(1), []byte("x")}}
				var lost *UnroutableError
				if err := p.Publish(testContext(t), m); !errors.As(err, &lost) || lost.RoutingKey != m.RoutingKey || lost.Code != 312 {
					t.Errorf("message to nowhere: %v", err)
				}
				m.Optional = true
				if err := p.Publish(testContext(t), m); err != nil {
					t.Errorf("optional message to nowhere: %v", err)
				}
			})
		}
		calls.Wait()
		if n := wantAll(t, b, queue, 500); n != 0 {
			t.Errorf("%d duplicates on a healthy connection", n)
		}
	})
}

func TestSendKeepsOrder(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, nil)
		p := publisher(t, open(t, b.URL, nil), 64)
		waitAll(t, sendAll(t, p, queue, 1000))
		for i, d := range b.Take(t, queue, 1000) {
			if string(d.Body) != fmt.Sprint(i) {
				t.Fatalf("message %d is %s", i, d.Body)
			}
		}
	})
}

func TestFullQueueNacksOneMessageOnly(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		full := b.Queue(t, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
		queue := b.Queue(t, nil)
		p := publisher(t, open(t, b.URL, nil), 0)
		if err := p.Publish(testContext(t), to(full, "fits")); err != nil {
			t.Fatal(err)
		}
		healthy := sendAll(t, p, queue, 10)
		var nacked *NackedError
		if err := p.Publish(testContext(t), to(full, "does not")); !errors.As(err, &nacked) || nacked.RoutingKey != full {
			t.Errorf("got %v", err)
		}
		waitAll(t, healthy)
	})
}

// refusedMessages returns messages that every broker refuses, each for another reason.
func refusedMessages(queue string) map[string]Message {
	foreign := to(queue, "pill")
	foreign.Publishing.UserId = "somebody"
	expiration := to(queue, "pill")
	expiration.Publishing.Expiration = "soon"
	copies := to(queue, "pill")
	copies.Publishing.Headers = amqp.Table{"CC": "no list"}
	missing := to(queue, "pill")
	missing.Exchange = "test.no.such.exchange"
	headers := to(queue, "pill")
	headers.Publishing.Headers = amqp.Table{"h": strings.Repeat("x", 131072)}
	nan := to(queue, "pill")
	nan.Publishing.Headers = amqp.Table{"list": []any{amqp.Table{"n": math.NaN()}}}
	inf := to(queue, "pill")
	inf.Publishing.Headers = amqp.Table{"n": float32(math.Inf(-1))}
	kind := to(queue, "pill")
	kind.Publishing.Headers = amqp.Table{"n": struct{}{}}
	name := to(queue, "pill")
	name.Publishing.Headers = amqp.Table{strings.Repeat("n", 256): "v"}
	key := to(strings.Repeat("k", 256), "pill")
	id := to(queue, "pill")
	id.Publishing.MessageId = strings.Repeat("i", 256)
	return map[string]Message{
		"user_id": foreign, "expiration": expiration, "CC": copies, "exchange": missing, "headers": headers,
		"NaN": nan, "Inf": inf, "type": kind, "header name": name, "routing key": key, "message id": id,
	}
}

func TestPillIsRefusedAndTheRestArrives(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for what, pill := range refusedMessages("") {
			t.Run(what, func(t *testing.T) {
				rabbittest.NoLeaks(t)
				queue := b.Queue(t, nil)
				if pill.RoutingKey == "" {
					pill.RoutingKey = queue
				}
				c := open(t, b.URL, nil)
				p := publisher(t, c, 50)
				before := sendAll(t, p, queue, 20)
				pending, err := p.Send(testContext(t), pill)
				after := sendAll(t, p, queue, 20)
				if err == nil {
					err = pending.Wait(testContext(t))
				}
				var refused *RefusedError
				if !errors.As(err, &refused) || refused.Code == 0 || refused.Reason == "" {
					t.Errorf("got %v", err)
				}
				waitAll(t, before)
				waitAll(t, after)
				wantAll(t, b, queue, 20)
				if live, _, err := c.await(testContext(t)); err != nil || live.IsClosed() {
					t.Error("the connection was lost")
				}
			})
		}
	})
}

func TestOversizeBodyIsRefused(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		if strings.HasPrefix(b.Version, "3.") {
			t.Skip("3.x takes up to 128 MiB")
		}
		queue := b.Queue(t, nil)
		p := publisher(t, open(t, b.URL, nil), 10)
		pill := to(queue, "")
		pill.Publishing.Body = make([]byte, 17<<20)
		pending, err := p.Send(testContext(t), pill)
		if err != nil {
			t.Fatal(err)
		}
		rest := sendAll(t, p, queue, 5)
		var refused *RefusedError
		if err := pending.Wait(testContext(t)); !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed {
			t.Errorf("got %v", err)
		}
		waitAll(t, rest)
	})
}

// TestHeadersUpToTheLimit checks that the broker accepts headers of the maximum
// size, to the byte.
func TestHeadersUpToTheLimit(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, nil)
		p := publisher(t, open(t, b.URL, nil), 10)
		m := to(queue, "x")
		m.Publishing.Headers = amqp.Table{
			"a": true, "b": byte(1), "c": int8(1), "d": int16(1), "e": uint16(1), "f": 1, "g": int32(1), "h": uint32(1),
			"i": int64(1), "j": float32(1), "k": float64(1), "l": amqp.Decimal{Scale: 1, Value: 1}, "m": "s", "n": []byte("b"),
			"o": time.Unix(1, 0), "p": nil, "q": amqp.Table{"x": "y"}, "r": []any{"x", int64(1)}, "fill": "",
		}
		m.Publishing.MessageId, m.Publishing.Timestamp, m.Publishing.Priority = "id", time.Unix(1, 0), 1
		for over := range 2 {
			m.Publishing.Headers["fill"] = ""
			m.Publishing.Headers["fill"] = strings.Repeat("x", 131072-wire.HeaderFrameSize(m.Publishing)+over)
			err := p.Publish(testContext(t), m)
			var refused *RefusedError
			if over == 0 && err != nil || over > 0 && !errors.As(err, &refused) {
				t.Errorf("%d bytes over: %v", over, err)
			}
		}
		b.Take(t, queue, 1)
	})
}

func TestLostConnectionIsSentAgain(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		proxy := b.Proxy(t)
		p := publisher(t, open(t, proxy.URL, nil), 200)
		const total = 3000
		sent := make(chan []*Pending)
		go func() { sent <- sendAll(t, p, queue, total) }()
		for range 5 {
			at := b.Len(t, queue)
			rabbittest.Eventually(t, "more messages in the queue", func() bool {
				n := b.Len(t, queue)
				return n > at || n >= total
			})
			proxy.Cut()
			proxy.Mend()
		}
		waitAll(t, rabbittest.Receive(t, sent))
		t.Logf("%d duplicates", wantAll(t, b, queue, total))
	})
}

func TestPublishWaitsNoLongerThanItsContext(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	queue := b.Queue(t, nil)
	proxy := b.Proxy(t)
	c := open(t, proxy.URL, nil)
	p := publisher(t, c, 10)
	if err := p.Publish(testContext(t), to(queue, "first")); err != nil {
		t.Fatal(err)
	}
	// No confirms arrive from here on.
	proxy.Add(`{"name":"mute","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Publish(ctx, to(queue, "second")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	proxy.Cut()
	rabbittest.Eventually(t, "the loss of the connection", func() bool { return c.Err() != nil })
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Publish(ctx, to(queue, "third")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("got %v", err)
	}
	proxy.Remove("mute")
	proxy.Mend()
	if err := p.Publish(testContext(t), to(queue, "fourth")); err != nil {
		t.Error(err)
	}
}

// TestPublishWithoutABroker checks that messages given up by their callers while
// disconnected free their slots, although they stay in the submit channel and fill
// it.
func TestPublishWithoutABroker(t *testing.T) {
	rabbittest.NoLeaks(t)
	p := NewPublisher(open(t, "amqp://127.0.0.1:1/", nil), PublisherConfig{Window: 2})
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		published := make(chan error, 1)
		go func() { published <- p.Publish(ctx, to("x", "y")) }()
		if err := rabbittest.Receive(t, published); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	published := make(chan error, 1)
	go func() { published <- p.Publish(context.Background(), to("x", "y")) }()
	rabbittest.Eventually(t, "the message waits", func() bool { return len(p.slots) == 1 })
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := rabbittest.Receive(t, published); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestCloseWaitsForConfirmsWithinItsBounds(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	queue := b.Queue(t, nil)
	proxy := b.Proxy(t)
	c := open(t, proxy.URL, nil)
	healthy := NewPublisher(c, PublisherConfig{})
	all := sendAll(t, healthy, queue, 500)
	if err := healthy.Close(); err != nil {
		t.Errorf("with everything confirmed: %v", err)
	}
	waitAll(t, all)
	if err := healthy.Publish(testContext(t), to(queue, "late")); !errors.Is(err, ErrClosed) {
		t.Errorf("publish after close: %v", err)
	}
	if err := healthy.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}

	stuck := NewPublisher(c, PublisherConfig{StopTimeout: 50 * time.Millisecond})
	if err := stuck.Publish(testContext(t), to(queue, "x")); err != nil {
		t.Fatal(err)
	}
	proxy.Add(`{"name":"mute","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
	pending := sendAll(t, stuck, queue, 3)
	if err := stuck.Close(); err == nil || !strings.Contains(err.Error(), "3 messages") {
		t.Errorf("with three unconfirmed: %v", err)
	}
	for _, m := range pending {
		if err := m.Wait(testContext(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}

func TestPublisherEndsWithItsConnection(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	c := open(t, b.URL, nil)
	p := NewPublisher(c, PublisherConfig{})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(testContext(t), to("x", "y")); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnconfirmedMessagesHoldUpNobody publishes to a queue that confirms nothing,
// like one without a majority. Messages given up by their callers occupy no slots
// of other messages, even when the channel is opened again because the broker
// refused a message.
func TestUnconfirmedMessagesHoldUpNobody(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		stuck, queue := b.Queue(t, nil), b.Queue(t, nil)
		log := &rabbittest.Log{}
		url, _ := b.Unconfirmed(t, stuck)
		c := open(t, url, func(cfg *Config) { cfg.Logger = log.Logger() })
		p := publisher(t, c, 10)
		giveUp := func(n int) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			var callers sync.WaitGroup
			for range n {
				callers.Go(func() {
					if err := p.Publish(ctx, to(stuck, "x")); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
				})
			}
			callers.Wait()
		}
		for round := range 4 {
			giveUp(9)
			waitAll(t, sendAll(t, p, queue, 9))
			pill := to(queue, "pill")
			pill.Exchange = "test.no.such.exchange"
			waiting, cancel := context.WithCancel(testContext(t))
			held, err := p.Send(waiting, to(stuck, "held")) // sent again with the others
			if err != nil {
				t.Fatal(err)
			}
			var refused *RefusedError
			if err := p.Publish(testContext(t), pill); !errors.As(err, &refused) || refused.Code != amqp.NotFound {
				t.Errorf("round %d: %v", round, err)
			}
			waitAll(t, sendAll(t, p, queue, 5))
			cancel()
			if err := held.Wait(waiting); !errors.Is(err, context.Canceled) {
				t.Errorf("round %d: %v", round, err)
			}
		}
		for range 3 { // more than two windows, without a loss of the channel
			giveUp(9)
		}
		waitAll(t, sendAll(t, p, queue, 9))
		if log.Count("on another channel") == 0 {
			t.Errorf("the channel was not opened again:\n%s", log)
		}
	})
}
