package topology

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// reconcile runs Reconcile on a declared topology until the test ends.
func reconcile(t *testing.T, reconciler Reconciler) {
	t.Helper()
	if err := reconciler.Declare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { reconciler.Reconcile(ctx) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
}

// service is the exchange of another service: tapped, and bound to a route's queue.
func service(t *testing.T, b rabbittest.Broker, cfg *Config) (exchange, queue string) {
	exchange, queue = cfg.Prefix+"-orders", cfg.Prefix+"-created"
	b.DeleteExchange(t, exchange)
	b.DeleteQueue(t, queue)
	cfg.Tap = []Tap{{Exchange: exchange, Type: "topic"}}
	cfg.Routes = []Route{{Queue: queue, Bind: []Bind{{exchange, "created"}}}}
	return exchange, queue
}

// deploy deletes the exchange of a service and declares it again, with settings of the
// service's own.
func deploy(t *testing.T, ch *amqp.Channel, exchange string) {
	t.Helper()
	if err := ch.ExchangeDelete(exchange, false, false); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare(exchange, "topic", true, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}); err != nil {
		t.Fatal(err)
	}
}

// reaches waits until a message of the exchange is in each of the queues.
func reaches(t *testing.T, b rabbittest.Broker, exchange string, queues ...string) {
	t.Helper()
	reachesBy(t, b, exchange, "created", queues...)
}

func reachesBy(t *testing.T, b rabbittest.Broker, exchange, key string, queues ...string) {
	t.Helper()
	ch := b.Channel(t)
	rabbittest.Eventually(t, "messages of the exchange are in every queue again", func() bool {
		if err := ch.Publish(exchange, key, false, false, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		for _, queue := range queues {
			if b.Len(t, queue) == 0 {
				return false
			}
		}
		return true
	})
}

func TestReconcileTapsAnExchangeThatWasDeclaredAgain(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		cfg := named(t, b, Quorum)
		exchange, queue := service(t, b, &cfg)
		reconcile(t, Reconciler{Conn: connection(t, b), Config: cfg, Every: 20 * time.Millisecond})
		deploy(t, b.Channel(t), exchange)
		reaches(t, b, exchange, cfg.Index(), queue)
	})
}

func TestReconcileDeclaresNoExchangeOfServices(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := named(t, b, Quorum)
		exchange, _ := service(t, b, &cfg)
		var logged rabbittest.Log
		reconciler := Reconciler{Conn: connection(t, b), Config: cfg, Logger: logged.Logger()}
		if err := reconciler.Declare(t.Context()); err != nil {
			t.Fatal(err)
		}
		ch := b.Channel(t)
		if err := ch.ExchangeDelete(exchange, false, false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := reconciler.Repair(t.Context()); err != nil {
				t.Error(err)
			}
		}
		var broker *amqp.Error
		err := ch.ExchangeDeclarePassive(exchange, "topic", true, false, false, false, nil)
		if !errors.As(err, &broker) || broker.Code != amqp.NotFound {
			t.Errorf("the exchange is there: %v", err)
		}
		if logged.String() != "" {
			t.Error(logged.String())
		}
	})
}

// TestReconcileChecksAtOnceAfterAReconnect: the topology may have changed.
func TestReconcileChecksAtOnceAfterAReconnect(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		cfg := named(t, b, Quorum)
		exchange, queue := service(t, b, &cfg)
		proxy := b.Proxy(t)
		away := b
		away.URL = proxy.URL
		reconcile(t, Reconciler{Conn: connection(t, away), Config: cfg, Every: time.Hour})
		proxy.Cut()
		deploy(t, b.Channel(t), exchange)
		proxy.Mend()
		reaches(t, b, exchange, cfg.Index(), queue)
	})
}

func TestReconcileDeclaresDeletedExchangesAndQueues(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := named(t, b, Quorum)
		exchange, _ := service(t, b, &cfg)
		var logged rabbittest.Log
		reconcile(t, Reconciler{
			Conn: connection(t, b), Config: cfg, Every: 20 * time.Millisecond, Logger: logged.Logger(),
		})
		ch := b.Channel(t)
		for _, e := range cfg.exchanges() {
			if err := ch.ExchangeDelete(e.name, false, false); err != nil {
				t.Fatal(err)
			}
			rabbittest.Eventually(t, e.name+" is back", func() bool { return logged.Count(e.name) > 0 })
		}
		if _, err := ch.QueueDelete(cfg.Index(), false, false, false); err != nil {
			t.Fatal(err)
		}
		reachesAgain := func(exchange string, queue string) { reaches(t, b, exchange, queue) }
		rabbittest.Eventually(t, "the queue is back", func() bool { return logged.Count("queue of Watership") > 0 })
		reachesAgain(exchange, cfg.Index())
		reachesAgain(cfg.Events(), cfg.Log())
		reachesBy(t, b, cfg.Direct(), cfg.Poison(), cfg.Poison())
		for exchange, queue := range map[string]string{cfg.Retry(): cfg.Retry(), cfg.Late(): cfg.IndexLate()} {
			dying := b.Queue(t, amqp.Table{"x-dead-letter-exchange": exchange, "x-message-ttl": int32(1)})
			reachesBy(t, b, "", dying, queue)
		}
	})
}

func TestSelfHealingPublisherPublishesToADeletedExchange(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		cfg := named(t, b, Quorum)
		var logged rabbittest.Log
		conn := connection(t, b)
		reconciler := Reconciler{Conn: conn, Config: cfg, Logger: logged.Logger()}
		if err := reconciler.Declare(t.Context()); err != nil {
			t.Fatal(err)
		}
		publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
		t.Cleanup(func() { publisher.Close() })
		healing := NewSelfHealingPublisher(publisher, reconciler)
		ch := b.Channel(t)
		for _, exchange := range []string{cfg.Events(), cfg.Direct()} {
			if err := ch.ExchangeDelete(exchange, false, false); err != nil {
				t.Fatal(err)
			}
			var callers sync.WaitGroup
			for i := range 20 { // at once, as handlers do
				callers.Go(func() {
					m := rabbit.Message{Exchange: exchange, RoutingKey: cfg.Topology.Due(), Publishing: amqp.Publishing{Body: fmt.Append(nil, i)}}
					if err := healing.Publish(t.Context(), m); err != nil {
						t.Errorf("%s: %v", exchange, err)
					}
				})
			}
			callers.Wait()
		}
		if n := logged.Count("exchange of Watership"); n < 2 {
			t.Errorf("%d were declared again:\n%s", n, logged.String())
		}
		if _, err := ch.QueueDelete(cfg.Poison(), false, false, false); err != nil {
			t.Fatal(err)
		}
		if err := healing.Publish(t.Context(), rabbit.Message{Exchange: cfg.Direct(), RoutingKey: cfg.Poison()}); err != nil {
			t.Error(err)
		}
		// Direct delivery: a deleted exchange, and an existing queue.
		theirs := b.Queue(t, nil)
		if err := ch.ExchangeDelete(cfg.Return(), false, false); err != nil {
			t.Fatal(err)
		}
		if err := reconciler.BindReturn(t.Context(), theirs); err != nil {
			t.Error(err)
		}
		var refused *rabbit.RefusedError
		if err := reconciler.BindReturn(t.Context(), "nowhere"); !errors.As(err, &refused) || refused.Code != amqp.NotFound {
			t.Errorf("got %v", err)
		}
		// Another's exchange is not ours to make.
		err := healing.Publish(t.Context(), rabbit.Message{Exchange: "nowhere"})
		if !errors.As(err, &refused) || refused.Code != amqp.NotFound {
			t.Errorf("got %v", err)
		}
	})
}

// TestRouteIsConsumedWithoutItsExchange: its queue exists, with messages.
func TestRouteIsConsumedWithoutItsExchange(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := named(t, b, Quorum)
		_, queue := service(t, b, &cfg)
		reconciler := Reconciler{Conn: connection(t, b), Config: cfg, RouteWait: time.Millisecond}
		for range 2 { // a new queue, and an existing one
			if err := reconciler.PrepareQueue(t.Context(), queue); err != nil {
				t.Fatal(err)
			}
		}
		publishKey(t, b, "", queue)
		b.Take(t, queue, 1)
	})
}

// TestDeletedRouteQueueIsLeftToItsService: a deploy deletes a queue and declares it with
// other arguments, which the broker refuses where another has declared it before.
func TestDeletedRouteQueueIsLeftToItsService(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for name, wait := range map[string]time.Duration{"its service comes": time.Hour, "nobody comes": 100 * time.Millisecond} {
			t.Run(name, func(t *testing.T) {
				rabbittest.NoLeaks(t)
				cfg := named(t, b, Quorum)
				_, queue := service(t, b, &cfg)
				log := &rabbittest.Log{}
				reconciler := Reconciler{Conn: connection(t, b), Config: cfg, Logger: log.Logger(), RouteWait: wait}
				if err := reconciler.Declare(t.Context()); err != nil {
					t.Fatal(err)
				}
				consuming, end := context.WithCancel(t.Context())
				received := make(chan struct{}, 1)
				var consumer sync.WaitGroup
				consumer.Go(func() {
					prepare := func(*amqp.Channel) error { return reconciler.PrepareQueue(consuming, queue) }
					_ = reconciler.Conn.Consume(consuming, rabbit.ConsumeConfig{Queue: queue, Prefetch: 1, Setup: prepare},
						func(ctx context.Context, session *rabbit.Session) error {
							select {
							case <-session.Deliveries:
								received <- struct{}{}
								<-ctx.Done()
							case <-ctx.Done():
							}
							return nil
						})
				})
				t.Cleanup(func() {
					end()
					consumer.Wait()
					if t.Failed() {
						t.Log(log)
					}
				})
				rabbittest.Eventually(t, "its consumer", func() bool { return consumers(t, b, queue) == 1 })
				ch := b.Channel(t)
				if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
					t.Fatal(err)
				}
				rabbittest.Eventually(t, "its loss is told", func() bool { return log.Count("was deleted") == 1 })
				if wait == time.Hour {
					if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": 5}); err != nil {
						t.Fatal(err)
					}
				} else {
					rabbittest.Eventually(t, "its return is told", func() bool { return log.Count("declaring it") == 1 })
				}
				rabbittest.Eventually(t, "its consumer again", func() bool { return consumers(t, b, queue) == 1 })
				publishKey(t, b, "", queue)
				rabbittest.Receive(t, received)
				if log.Count("declaring it") > 0 != (wait < time.Hour) {
					t.Error(log)
				}
			})
		}
	})
}

// consumers returns the number of consumers of a queue, 0 if it does not exist.
func consumers(t *testing.T, b rabbittest.Broker, queue string) int {
	t.Helper()
	ch, err := b.Admin(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	q, _ := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return q.Consumers
}
