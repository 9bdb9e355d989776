package cli

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// stopwatch is a service that notes when it gets each message and when it answers. It fails each
// twentieth message at first.
type stopwatch struct {
	mu        sync.Mutex // guards what follows
	published map[string]time.Time
	attempts  map[string][]attemptTimes
}

type attemptTimes struct{ began, ended time.Time }

// work is how long the service takes for each message.
const work = 5 * time.Millisecond

func (s *stopwatch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, id := time.Now(), r.Header.Get("Watership-Message-Id")
	time.Sleep(work)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[id] = append(s.attempts[id], attemptTimes{began, time.Now()})
	var n int
	if _, err := fmt.Sscan(id, &n); err != nil || n%20 == 7 && len(s.attempts[id]) == 1 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// differences returns how much each recorded time of some events differs from the stopwatch. How long a message was in its
// queue before a further attempt is not known outside of Watership, which sends it there.
func (s *stopwatch) differences(events []schemas.Event) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []time.Duration
	for _, e := range events {
		id := e.Envelope.Properties.MessageID
		published, attempt := s.published[id], s.attempts[id][e.Attempt-1]
		all = append(all, (e.Duration - attempt.ended.Sub(attempt.began)).Abs())
		if e.Attempt == 1 {
			all = append(all, (e.QueueTime - attempt.began.Sub(published)).Abs())
		}
		if e.Action == schemas.Handled {
			all = append(all, (e.TotalTime - attempt.ended.Sub(published)).Abs())
		}
	}
	slices.Sort(all)
	return all
}

// The times of 1,000 messages that the store has are those of a stopwatch in other processes: of the publisher, and of
// the service that handles them. Between their moments and those of Watership are a request and whatever else the machine
// does, so that the half that it delays least counts here. TestSoakTimesEqualAStopwatch of package pipeline has its
// stopwatch in the handler, and allows one of a hundred.
func TestSoakStoredTimesEqualAStopwatch(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("depends on the load of the machine: set WATERSHIP_TEST_SOAK=1")
	}
	rabbittest.EachServer(t, func(t *testing.T, broker rabbittest.Broker) {
		const messages, exactly = 1000, 10 * time.Millisecond
		watch := &stopwatch{published: map[string]time.Time{}, attempts: map[string][]attemptTimes{}}
		i := servertest.Install(t, broker, servertest.ServeHTTP(t, watch))
		if err := broker.Channel(t).ExchangeDeclare(i.Exchange, "topic", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		i.Serve(t)
		publisher := i.Publisher(t)
		for n := range messages {
			id, now := fmt.Sprint(n), time.Now()
			watch.mu.Lock()
			watch.published[id] = now
			watch.mu.Unlock()
			err := publisher.Publish(t.Context(), rabbit.Message{Exchange: i.Exchange, RoutingKey: "order", Publishing: amqp.Publishing{
				MessageId: id, Headers: amqp.Table{"timestamp_in_ms": now.UnixMilli()},
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		i.Eventually(t, "action: handled", messages)
		events := i.Search(t, "action: (handled or retry_scheduled)")
		all := watch.differences(events)
		within, _ := slices.BinarySearch(all, exactly+1)
		beyond := len(all) - within
		t.Logf("of %d times of %d events, %d differ by more than %s: half by %s at most, 99 %% by %s, all by %s",
			len(all), len(events), beyond, exactly, all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
		if len(events) != messages+messages/20 || beyond > len(all)/2 {
			t.Errorf("%d of %d times differ by more than %s, of %d events", beyond, len(all), exactly, len(events))
		}
	})
}
