package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
	"github.com/watershipmq/watership/schemas"
)

// quiet fails if something comes in a short while. It can only miss a fault, not invent one.
func quiet[T any](t testing.TB, what string, from <-chan T) {
	t.Helper()
	select {
	case <-from:
		t.Error(what)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestAsManyInFlightAsConcurrencySays(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, concurrency := range []int{1, 5} {
			t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
				rabbittest.NoLeaks(t)
				cfg := queueConfig(b)
				cfg.Consume.Qos.PrefetchCount = 20 // more waits in the client, in its order
				queue := b.Queue(t, nil)
				publish(t, newTestPublisher(t, cfg), queue, numbered(20)...)
				messages := subscribe(t, newTestSubscriber(t, cfg, Concurrency(concurrency)), queue)
				var held []*message.Message
				for range concurrency {
					held = append(held, rabbittest.Receive(t, messages))
				}
				quiet(t, "more in flight than concurrency", messages)
				for range 20 - concurrency {
					held[0].Ack()
					held = append(held[1:], rabbittest.Receive(t, messages))
				}
				for _, msg := range held {
					msg.Ack()
				}
			})
		}
	})
}

// Handlers that take long do not keep the prefetch small, with which a subscription with
// MaxBytes begins: the other handlers would be idle.
func TestSlowHandlersLeaveNoneIdle(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const concurrency = 50
		queue := b.Queue(t, nil)
		publish(t, newTestPublisher(t, queueConfig(b)), queue, numbered(2*concurrency)...)
		messages := subscribe(t, newTestSubscriber(t, queueConfig(b), Concurrency(concurrency), MaxBytes(64<<20)), queue)
		var held []*message.Message
		for range concurrency {
			held = append(held, rabbittest.Receive(t, messages))
		}
		quiet(t, "more in flight than concurrency", messages)
		for _, msg := range held {
			msg.Ack()
		}
	})
}

func TestMessageCarriesItsEnvelope(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, amqp.Table{"x-queue-type": "quorum"})
		if err := b.Channel(t).Publish("", queue, false, false, everything()); err != nil {
			t.Fatal(err)
		}
		cfg := queueConfig(b)
		cfg.Queue.Arguments = amqp.Table{"x-queue-type": "quorum"}
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		messages, err := newTestSubscriber(t, cfg, NackBackoff(0, 0)).Subscribe(ctx, queue)
		if err != nil {
			t.Fatal(err)
		}
		msg := rabbittest.Receive(t, messages)
		envelope, ok := schemas.FromContext(msg.Context())
		if !ok || envelope.RoutingKey != queue {
			t.Errorf("envelope %+v", envelope)
		}
		equal(t, envelope.Publishing(), everything())
		if Redelivered(msg.Context()) || msg.Context().Value(key{}) != "value" {
			t.Error("redelivered, or without the values of the subscription's context")
		}
		msg.Nack()
		rabbittest.Ends(t, msg.Context().Done())
		again := rabbittest.Receive(t, messages)
		if !Redelivered(again.Context()) {
			t.Error("not marked as redelivered")
		}
		cancel() // stops the subscription, not the handler
		quiet(t, "the handler's context ended with the subscription's", again.Context().Done())
		again.Ack()
		rabbittest.Ends(t, again.Context().Done())
		for range messages {
		}
		if n := b.Len(t, queue); n != 0 {
			t.Errorf("%d messages left", n)
		}
	})
}

// refusing is a marshaler that refuses deliveries, as the stock one does.
type refusing struct{ Marshaler }

func (refusing) Unmarshal(amqp.Delivery) (*message.Message, error) {
	return nil, errors.New("not a string")
}

func TestNoMessageStopsAConsumer(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, marshaler := range []wamqp.Marshaler{nil, refusing{}, wamqp.DefaultMarshaler{}} {
			t.Run(fmt.Sprintf("%T", marshaler), func(t *testing.T) {
				queue := b.Queue(t, nil)
				for range 3 {
					if err := b.Channel(t).Publish("", queue, false, false, everything()); err != nil {
						t.Fatal(err)
					}
				}
				cfg := queueConfig(b)
				cfg.Marshaler = marshaler
				messages := subscribe(t, newTestSubscriber(t, cfg), queue)
				for range 3 {
					msg := rabbittest.Receive(t, messages)
					got, err := Marshaler{}.Marshal(msg)
					if err != nil {
						t.Fatal(err)
					}
					equal(t, got, everything())
					msg.Ack()
				}
			})
		}
	})
}

func TestNackComesBackAfterAPauseThatGrows(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []string{"classic", "quorum"} {
			t.Run(kind, func(t *testing.T) {
				args := amqp.Table{"x-queue-type": kind}
				queue := b.Queue(t, args)
				cfg := queueConfig(b)
				cfg.Queue.Arguments = args
				publish(t, newTestPublisher(t, cfg), queue, numbered(1)...)
				messages := subscribe(t, newTestSubscriber(t, cfg, NackBackoff(40*time.Millisecond, 160*time.Millisecond)), queue)
				msg := rabbittest.Receive(t, messages)
				for _, full := range []time.Duration{40, 80, 160, 160} {
					nacked := time.Now()
					msg.Nack()
					msg = rabbittest.Receive(t, messages)
					if took := time.Since(nacked); took < full*time.Millisecond/2 {
						t.Errorf("back after %v, pause of up to %v ms", took, full)
					}
				}
				msg.Ack()
			})
		}
	})
}

func TestPausedNackDelaysNoOther(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := b.Queue(t, nil)
	cfg := queueConfig(b)
	publish(t, newTestPublisher(t, cfg), queue, numbered(50)...)
	s := newTestSubscriber(t, cfg, Concurrency(2), NackBackoff(time.Hour, time.Hour), StopTimeout(time.Hour))
	messages := subscribe(t, s, queue)
	rabbittest.Receive(t, messages).Nack()
	for range 49 {
		rabbittest.Receive(t, messages).Ack()
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if err := rabbittest.Receive(t, closed); err != nil { // the end does not wait for the pause
		t.Error(err)
	}
	rabbittest.Eventually(t, "the nacked message back in its queue", func() bool { return b.Len(t, queue) == 1 })
}

func TestNackWithoutRequeueDeadLetters(t *testing.T) {
	b := rabbittest.Newest(t)
	dead := b.Queue(t, nil)
	args := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
	queue := b.Queue(t, args)
	cfg := queueConfig(b)
	cfg.Queue.Arguments = args
	cfg.Consume.NoRequeueOnNack = true
	publish(t, newTestPublisher(t, cfg), queue, numbered(1)...)
	rabbittest.Receive(t, subscribe(t, newTestSubscriber(t, cfg, NackBackoff(time.Hour, time.Hour)), queue)).Nack()
	b.Take(t, dead, 1)
}

func TestStopWaitsForHandlersAndRequeuesTheRest(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue, other := b.Queue(t, nil), b.Queue(t, nil)
		cfg := queueConfig(b)
		cfg.Consume.Qos.PrefetchCount = 100
		p := newTestPublisher(t, cfg)
		publish(t, p, queue, numbered(50)...)
		s := newTestSubscriber(t, cfg, Concurrency(3))
		ctx, cancel := context.WithCancel(t.Context())
		messages, err := s.Subscribe(ctx, queue)
		if err != nil {
			t.Fatal(err)
		}
		bystander := subscribe(t, s, other)
		var held []*message.Message
		for range 3 {
			held = append(held, rabbittest.Receive(t, messages))
		}
		cancel()
		quiet(t, "handed out after the stop, or ended before its handlers", messages)
		for _, msg := range held {
			if msg.Context().Err() != nil {
				t.Error("the context of a message being handled has ended")
			}
			msg.Ack()
		}
		if msg, ok := <-messages; ok {
			t.Errorf("handed out after the stop: %s", msg.Payload)
		}
		rabbittest.Eventually(t, "what was not handled back in its queue", func() bool { return b.Len(t, queue) == 47 })

		publish(t, p, other, numbered(1)...)
		rabbittest.Receive(t, bystander).Ack()
	})
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	queue := b.Queue(t, nil)
	cfg := queueConfig(b)
	publish(t, newTestPublisher(t, cfg), queue, numbered(1)...)
	s := newTestSubscriber(t, cfg, StopTimeout(20*time.Millisecond))
	messages := subscribe(t, s, queue)
	msg := rabbittest.Receive(t, messages)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if msg.Context().Err() == nil {
		t.Error("the context of the abandoned message lives")
	}
	msg.Ack() // too late, and without effect
	rabbittest.Eventually(t, "the message back in its queue", func() bool { return b.Len(t, queue) == 1 })
	if _, err := s.Subscribe(t.Context(), queue); err == nil {
		t.Error("a closed subscriber subscribes")
	}
}

// TestLostSession: at concurrency 1 the message comes again only when the handler
// that had it has finished, and the late ack takes nothing.
func TestLostSession(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		publish(t, newTestPublisher(t, queueConfig(b)), queue, numbered(2)...)
		proxy := b.Proxy(t)
		cfg := queueConfig(b)
		cfg.Connection.AmqpURI = proxy.URL
		messages := subscribe(t, newTestSubscriber(t, cfg), queue)
		msg := rabbittest.Receive(t, messages)
		proxy.Cut()
		rabbittest.Ends(t, msg.Context().Done())
		proxy.Mend()
		quiet(t, "a second message beside the lost one", messages)
		msg.Ack()
		for i := range 2 {
			msg := rabbittest.Receive(t, messages)
			if string(msg.Payload) != fmt.Sprint(i) {
				t.Errorf("got %s, want %d", msg.Payload, i)
			}
			msg.Ack()
		}
	})
}

func TestDeletedQueueMakesNoPhantoms(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		cfg := queueConfig(b)
		p := newTestPublisher(t, cfg)
		messages := subscribe(t, newTestSubscriber(t, cfg), queue)
		for i := range 3 {
			if _, err := b.Channel(t).QueueDelete(queue, false, false, false); err != nil {
				t.Fatal(err)
			}
			rabbittest.Eventually(t, "the queue back", func() bool {
				return p.Publish(queue, message.NewMessage("id", []byte(fmt.Sprint(i)))) == nil
			})
			msg := rabbittest.Receive(t, messages)
			if string(msg.Payload) != fmt.Sprint(i) {
				t.Errorf("got %q", msg.Payload)
			}
			msg.Ack()
		}
	})
}

// The routes of one connection start side by side, in no more than ten times what their channels and consumers cost.
// Another program may take the processors while one of them is measured, and so the best of three counts.
func TestAThousandRoutesStartInSeconds(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	best := math.Inf(1)
	for n := 0; n < 3 && best > 10; n++ {
		raw := openConsumers(t, b, 1000)
		took := startSubscriptions(t, b, 1000)
		t.Logf("%v for 1,000 routes on one connection, %v for their channels and consumers alone", took, raw)
		best = min(best, took.Seconds()/raw.Seconds())
	}
	if best > 10 {
		t.Errorf("took %.1f times what their channels and consumers cost, want at most ten times", best)
	}
}

// openConsumers returns the time for consumers on channels of one connection.
func openConsumers(t *testing.T, b rabbittest.Broker, count int) time.Duration {
	t.Helper()
	queue := b.Queue(t, nil)
	plain, err := amqp.Dial(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for range count {
		channel, err := plain.Channel()
		if err == nil {
			_, err = channel.Consume(queue, "", false, false, false, false, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(start)
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	return took
}

// startSubscriptions returns the time for subscriptions on one connection.
func startSubscriptions(t *testing.T, b rabbittest.Broker, count int) time.Duration {
	t.Helper()
	queue := b.Queue(t, nil)
	s, err := NewSubscriberWithConnection(queueConfig(b), nil, connection(t, b), Concurrency(16))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var all sync.WaitGroup
	for range count {
		all.Go(func() {
			messages, err := s.Subscribe(t.Context(), queue)
			if err != nil {
				t.Error(err)
				return
			}
			all.Go(func() {
				for msg := range messages {
					msg.Ack()
				}
			})
		})
	}
	rabbittest.Eventually(t, "all consumers", func() bool {
		q, err := b.Channel(t).QueueDeclarePassive(queue, true, false, false, false, nil)
		return err == nil && q.Consumers == count
	})
	took := time.Since(start)
	start = time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%v to stop them", time.Since(start))
	all.Wait()
	return took
}

func TestSubscriptionEndsWithASharedConnection(t *testing.T) {
	b := rabbittest.Newest(t)
	rabbittest.NoLeaks(t)
	conn := connection(t, b)
	s, err := NewSubscriberWithConnection(queueConfig(b), nil, conn)
	if err != nil {
		t.Fatal(err)
	}
	messages := subscribe(t, s, b.Queue(t, nil))
	conn.Close()
	if _, ok := <-messages; ok {
		t.Error("a message out of nowhere")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSubscribeSaysWhatIsWrong(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := b.Queue(t, amqp.Table{"x-max-length": 5})
	cfg := queueConfig(b)
	var broker *amqp.Error
	if _, err := newTestSubscriber(t, cfg).Subscribe(t.Context(), queue); !errors.As(err, &broker) || broker.Code != amqp.PreconditionFailed {
		t.Errorf("got %v", err)
	}
	cfg.Connection.AmqpURI = "amqp://127.0.0.1:1/"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := newTestSubscriber(t, cfg).Subscribe(ctx, queue); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	for _, change := range []func(*wamqp.Config){
		func(c *wamqp.Config) { c.Connection.AmqpURI = "" },
		func(c *wamqp.Config) { c.Connection.AmqpURI = "http://x" },
		func(c *wamqp.Config) { c.Queue.GenerateName = nil },
		func(c *wamqp.Config) { c.Publish.Immediate = true },
	} {
		cfg := queueConfig(b)
		change(&cfg)
		if _, err := NewSubscriber(cfg, nil); err == nil {
			t.Error("a wrong configuration was accepted")
		}
	}
}

// TestUnhandledMessagesAreRequeuedAtOnce: the channel of a stopped subscription stays
// open for its slowest handler, which may take hours.
func TestUnhandledMessagesAreRequeuedAtOnce(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, concurrency := range []int{1, 3} {
			t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
				rabbittest.NoLeaks(t)
				queue := b.Queue(t, nil)
				cfg := queueConfig(b)
				cfg.Consume.Qos.PrefetchCount = 10
				publish(t, newTestPublisher(t, cfg), queue, numbered(50)...)
				s := newTestSubscriber(t, cfg, Concurrency(concurrency))
				ctx, cancel := context.WithCancel(t.Context())
				messages, err := s.Subscribe(ctx, queue)
				if err != nil {
					t.Fatal(err)
				}
				slow := rabbittest.Receive(t, messages)
				rabbittest.Eventually(t, "the broker hands out what it may", func() bool { return b.Len(t, queue) == 40 })
				cancel()
				rabbittest.Eventually(t, "all but the handled one are back", func() bool { return b.Len(t, queue) == 49 })
				slow.Ack()
				for range messages {
				}
				if n := b.Len(t, queue); n != 49 {
					t.Errorf("%d left", n)
				}
			})
		}
	})
}

// TestMaxBytes: messages in flight and prefetched messages are bounded by bytes;
// small messages get all places.
func TestMaxBytes(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		const concurrency, limit, total = 32, 4 << 20, 12
		queue := b.Queue(t, nil)
		cfg := queueConfig(b)
		p := newTestPublisher(t, cfg)
		messages := subscribe(t, newTestSubscriber(t, cfg, Concurrency(concurrency), MaxBytes(limit)), queue)
		small := func(hold int) (held []*message.Message) {
			publish(t, p, queue, numbered(300)...)
			for range 300 {
				rabbittest.Receive(t, messages).Ack()
			}
			publish(t, p, queue, numbered(hold)...)
			for range hold {
				held = append(held, rabbittest.Receive(t, messages))
			}
			return held
		}
		large := func(size int) (out []*message.Message) {
			for range total {
				out = append(out, message.NewMessage(watermill.NewUUID(), make([]byte, size)))
			}
			return out
		}
		for _, msg := range small(concurrency) {
			msg.Ack()
		}
		for _, size := range []int{1 << 20, 6 << 20} {
			publish(t, p, queue, large(size)...)
			most := max(1, limit/size)
			for done := 0; done < total; {
				held := []*message.Message{rabbittest.Receive(t, messages)}
				for more := true; more && len(held) <= most; {
					select {
					case msg := <-messages:
						held = append(held, msg)
					case <-time.After(20 * time.Millisecond): // can only miss a fault
						more = false
					}
				}
				if len(held) > most {
					t.Fatalf("%d messages of %d bytes at once", len(held), size)
				}
				ready := -1
				rabbittest.Eventually(t, "most wait in the queue", func() bool {
					ready = b.Len(t, queue)
					return ready+2*most+len(held) >= total-done
				})
				for _, msg := range held {
					msg.Ack()
				}
				done += len(held)
			}
		}
		for _, msg := range small(concurrency) {
			msg.Ack()
		}
	})
}

// The number of requeued messages that the option OnRequeue gets is not below that of the messages
// which come again: after a lost connection, also that of a subscription that is stopped, and
// with handlers that have messages from before the prefetch grew.
func TestOnRequeueCountsAllThatComeAgain(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprintf("stopped=%t", stopped), func(t *testing.T) {
				const concurrency, total = 20, 100
				queue, proxy := b.Queue(t, amqp.Table{"x-queue-type": "classic"}), b.Proxy(t)
				publish(t, newTestPublisher(t, queueConfig(b)), queue, numbered(total)...)
				cfg := queueConfig(b)
				cfg.Connection.AmqpURI = proxy.URL
				var requeued atomic.Int64
				first := newTestSubscriber(t, cfg, Concurrency(concurrency), MaxBytes(64<<20), delivery.OnRequeue(func(n int) { requeued.Add(int64(n)) }))
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				messages, err := first.Subscribe(ctx, queue)
				if err != nil {
					t.Fatal(err)
				}
				var held []*message.Message
				for range concurrency {
					held = append(held, rabbittest.Receive(t, messages))
				}
				if stopped {
					stop()
					rabbittest.Eventually(t, "only handlers have messages", func() bool { return b.Len(t, queue) == total-concurrency })
				}
				proxy.Cut()
				for _, msg := range held {
					rabbittest.Ends(t, msg.Context().Done())
					msg.Ack() // too late
				}
				proxy.Mend()
				if stopped {
					for range messages {
					}
					messages = subscribe(t, newTestSubscriber(t, cfg, Concurrency(concurrency)), queue)
				}
				redelivered := 0
				for range total {
					msg := rabbittest.Receive(t, messages)
					if Redelivered(msg.Context()) {
						redelivered++
					}
					msg.Ack()
				}
				if n := int(requeued.Load()); n < redelivered || redelivered < concurrency {
					t.Errorf("%d messages came again, OnRequeue was called for %d", redelivered, n)
				}
			})
		}
	})
}

// OnRequeue is called for a message that the broker sends while a subscription ends after its
// last ack, in whichever order these meet.
func TestOnRequeueCountsAMessageThatComesAtTheEnd(t *testing.T) {
	for name, way := range settling {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.Embedded(t)
			var ending sync.WaitGroup
			for range 8 {
				queue, publisher, admin := b.Queue(t, nil), newTestPublisher(t, queueConfig(b)), b.Channel(t)
				var requeued atomic.Int64
				s := newTestSubscriber(t, queueConfig(b), append(slices.Clone(way.options), Concurrency(1), delivery.OnRequeue(func(n int) { requeued.Add(int64(n)) }))...)
				ending.Go(func() {
					for i := range 100 {
						requeued.Store(0)
						publish(t, publisher, queue, numbered(2)...)
						endAfterAck(t, s, queue, way.ack, time.Duration(i)*5*time.Microsecond)
						left, found, err := admin.Get(queue, true)
						if err != nil {
							t.Error(err)
						}
						if found && left.Redelivered && requeued.Load() == 0 {
							t.Error("a message came again, OnRequeue was not called")
						}
					}
				})
			}
			ending.Wait()
		})
	}
}

// endAfterAck acks messages, and ends their subscription a time after the first.
func endAfterAck(t *testing.T, s *Subscriber, queue string, ack func(*message.Message), after time.Duration) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	messages, err := s.Subscribe(ctx, queue)
	if err != nil {
		t.Error(err)
		return
	}
	ack(<-messages)
	time.AfterFunc(after, stop)
	for msg := range messages {
		ack(msg)
	}
}
