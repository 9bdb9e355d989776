package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// needBenchmark skips measurements, which are no tests, unless WATERSHIP_TEST_BENCH is set.
func needBenchmark(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_BENCH") == "" {
		t.Skip("a measurement: set WATERSHIP_TEST_BENCH=1")
	}
}

const (
	latencyMessages = 4_000
	latencyPace     = 200 // messages a second
	historyMessages = 30_000
	historyRounds   = 3
)

// TestSubscriptionLatency measures the time from publish to delivery by a subscription, and
// beside it by a queue that is bound to the exchange.
func TestSubscriptionLatency(t *testing.T) {
	needBenchmark(t)
	for _, around := range bothParts(t) {
		t.Run(around.Kind, func(t *testing.T) {
			s := newSpeed(t, around)
			tapped, subscribed := s.bound(t), rabbittest.Name(t)
			s.declare(t, subscribed)
			s.Must(t, "subscribe", "live", "destination.name: "+s.Exchange, "--from", "now", "--to-queue", subscribed)
			time.Sleep(3 * time.Second) // until it runs: nothing else tells
			raw, live := s.arrivals(t, tapped, latencyMessages), s.arrivals(t, subscribed, latencyMessages)
			s.publish(t, latencyMessages, latencyPace)
			t.Logf("%s: bound queue %s; subscription %s", around.Kind, percentiles(latencies(<-raw)), percentiles(latencies(<-live)))
		})
	}
}

// TestSubscriptionHistory measures the rate of stored messages to a queue by a subscription and
// by a replay, by turns.
func TestSubscriptionHistory(t *testing.T) {
	needBenchmark(t)
	for _, around := range bothParts(t) {
		t.Run(around.Kind, func(t *testing.T) {
			s := newSpeed(t, around)
			s.publish(t, historyMessages, 1e6)
			servertest.Until(t, "all to be stored", func() bool {
				return strings.TrimSpace(s.Must(t, "search", "action: published", "--count")) == fmt.Sprint(historyMessages)
			})
			for round := range historyRounds {
				replayed, subscribed := rabbittest.Name(t), rabbittest.Name(t)
				s.declare(t, replayed)
				s.declare(t, subscribed)
				of := s.arrivals(t, replayed, historyMessages)
				s.Must(t, "replay", "action: published", "--to-queue", replayed, "--yes", "--again")
				byReplay := perSecond(<-of)
				servertest.Until(t, "its events to be stored", func() bool {
					return strings.TrimSpace(s.Must(t, "search", "action: replayed", "--count")) == fmt.Sprint(historyMessages*(round+1))
				})
				of = s.arrivals(t, subscribed, historyMessages)
				s.Must(t, "subscribe", fmt.Sprint("history-", round), "destination.name: "+s.Exchange, "--to-queue", subscribed, "--max-backlog", "0")
				bySubscription := perSecond(<-of)
				s.Must(t, "subscriptions", "delete", fmt.Sprint("history-", round), "--yes")
				t.Logf("%s: replay %.0f/s, subscription %.0f/s, ratio %.2f", around.Kind, byReplay, bySubscription, bySubscription/byReplay)
			}
		})
	}
}

func bothParts(t *testing.T) []servertest.Parts {
	return []servertest.Parts{servertest.Around(t, rabbittest.Embedded(t)), servertest.Around(t, rabbittest.NewestServer(t))}
}

// speed is an installation whose route gets no message.
type speed struct{ *servertest.Installation }

func newSpeed(t *testing.T, p servertest.Parts) speed {
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	s := speed{p.Install(t, service.URL)}
	s.Rewrite(t, `key: "#"`, "key: handled")
	s.Serve(t)
	return s
}

func (s speed) declare(t *testing.T, queue string) {
	if _, err := s.Broker.Channel(t).QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Broker.DeleteQueue(t, queue) })
}

// bound returns a queue that is bound to the exchange.
func (s speed) bound(t *testing.T) string {
	queue := rabbittest.Name(t)
	s.declare(t, queue)
	if err := s.Broker.Channel(t).QueueBind(queue, "#", s.Exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	return queue
}

// arrival is when a message was published and when it was delivered.
type arrival struct{ published, delivered time.Time }

// arrivals consumes n messages of a queue.
func (s speed) arrivals(t *testing.T, queue string, n int) <-chan []arrival {
	deliveries, err := s.Broker.Channel(t).Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []arrival, 1)
	go func() {
		var list []arrival
		for d := range deliveries {
			at, _ := d.Headers["at"].(int64)
			list = append(list, arrival{time.Unix(0, at), time.Now()})
			if len(list) == n {
				break
			}
		}
		done <- list
	}()
	return done
}

func latencies(list []arrival) (all []time.Duration) {
	for _, a := range list {
		all = append(all, a.delivered.Sub(a.published))
	}
	slices.Sort(all)
	return all
}

func percentiles(sorted []time.Duration) string {
	at := func(percent int) time.Duration { return sorted[len(sorted)*percent/100].Round(100 * time.Microsecond) }
	return fmt.Sprintf("p50 %s, p99 %s", at(50), at(99))
}

// perSecond returns the rate of arrivals after the first tenth.
func perSecond(list []arrival) float64 {
	first := len(list) / 10
	return float64(len(list)-1-first) / list[len(list)-1].delivered.Sub(list[first].delivered).Seconds()
}

// publish publishes messages of 1 KiB with 8 headers.
func (s speed) publish(t *testing.T, n, perSecond int) {
	publisher := s.Publisher(t)
	pace := rate.NewLimiter(rate.Limit(perSecond), 1)
	var unconfirmed sync.WaitGroup
	defer unconfirmed.Wait()
	for i := range n {
		if err := pace.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		headers := amqp.Table{"at": time.Now().UnixNano(), "n": int64(i)}
		for h := range 6 {
			headers[fmt.Sprint("header-", h)] = fmt.Sprint("value of header ", h)
		}
		e := schemas.Envelope{
			Properties: schemas.Properties{MessageID: fmt.Sprintf("m-%06d", i), DeliveryMode: amqp.Persistent}, Headers: headers,
			Body: fmt.Appendf(nil, `{"order":%d,"text":"%s"}`, i, bytes.Repeat([]byte("x"), 1000)),
		}
		pending, err := publisher.Send(t.Context(), rabbit.Message{Exchange: s.Exchange, RoutingKey: "k", Publishing: e.Publishing()})
		if err != nil {
			t.Fatal(err)
		}
		unconfirmed.Go(func() {
			if err := pending.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
