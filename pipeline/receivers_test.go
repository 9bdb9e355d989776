package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// 200 receivers share a route, 20,000 messages are published at a constant rate. That 10 of the
// receivers time out and 10 are down at most doubles the time until the first attempt at
// messages for others, in the 99th percentile.
func TestSoakManyReceivers(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("long: set WATERSHIP_TEST_SOAK=1")
	}
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		const messages = 20_000
		var ratios []float64
		for range 3 {
			well := receiversRun{messages: messages}.p99(t, b)
			broken := receiversRun{messages: messages, broken: 20}.p99(t, b)
			t.Logf("p99 of the first attempt: %s, with broken receivers %s", well, broken)
			ratios = append(ratios, float64(broken)/float64(well))
		}
		slices.Sort(ratios)
		t.Logf("ratios %.2f", ratios)
		if ratios[1] > 2 {
			t.Errorf("the median of the ratios is %.2f", ratios[1])
		}
	})
}

// The same with fewer messages: those for others are all handled although the broken
// receivers never answer, each at its first attempt.
func TestManyReceivers(t *testing.T) {
	receiversRun{messages: 1000, broken: 20}.p99(t, rabbittest.Newest(t))
}

const (
	receivers     = 200
	receiversRate = 1000 // messages a second
)

// receiversRun is a route with many receivers, of which the first may be broken: one half is
// down, the other does not answer.
type receiversRun struct{ messages, broken int }

// p99 returns the 99th percentile of the time from the publish of a message for a receiver
// that is not broken to its first attempt.
func (run receiversRun) p99(t *testing.T, b rabbittest.Broker) time.Duration {
	var mu sync.Mutex
	first := map[string]time.Duration{}
	ended, end := context.WithCancel(context.Background())
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Watership-Header-Kind") == "hangs" {
			select {
			case <-r.Context().Done():
			case <-ended.Done():
			}
			return
		}
		sent, _ := strconv.ParseInt(r.Header.Get("Watership-Header-Sent"), 10, 64)
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Watership-Message-Id")
		if _, repeated := first[id]; repeated || r.Header.Get("Watership-Attempt") != "1" {
			t.Errorf("message %s was sent at attempt %s", id, r.Header.Get("Watership-Attempt"))
		}
		first[id] = time.Since(time.Unix(0, sent))
	}))
	t.Cleanup(service.Close)
	t.Cleanup(end)
	working, refusing := webhook.New(webhook.Config{URL: service.URL, Timeout: time.Minute}), webhook.New(webhook.Config{URL: "http://" + rabbittest.FreeAddress(t)})
	hanging := webhook.New(webhook.Config{URL: service.URL, Timeout: 2 * time.Second})
	queue := rabbittest.Name(t)
	r := startSilent(t, b, func(c *Config) {
		c.Logger = slog.New(slog.DiscardHandler)
		c.Default = &retry.Policy{Delays: []time.Duration{30 * time.Second, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}}
		c.Routes = []Route{{
			Queue: queue, Concurrency: 64, Fairness: Fairness{Key: keyHeader, Concurrency: 2},
			Handler: func(msg *message.Message) ([]*message.Message, error) {
				switch e, _ := schemas.FromContext(msg.Context()); e.Headers["kind"] {
				case "down":
					return refusing(msg)
				case "hangs":
					return hanging(msg)
				}
				return working(msg)
			},
		}}
	})
	r.follow(r.topology.Log(), func(amqp.Delivery) {})
	wanted := 0
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range run.messages {
		if i%(receiversRate/100) == 0 {
			<-tick.C
		}
		receiver := i % receivers
		kind := "works"
		switch {
		case receiver < run.broken/2:
			kind = "down"
		case receiver < run.broken:
			kind = "hangs"
		default:
			wanted++
		}
		r.publish("", queue, amqp.Publishing{MessageId: fmt.Sprint(i), Headers: amqp.Table{
			"key": fmt.Sprint("r", receiver), "kind": kind, "sent": time.Now().UnixNano(),
		}})
	}
	rabbittest.Eventually(t, "the others have all messages", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(first) == wanted
	})
	end()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	var all []time.Duration
	for _, d := range first {
		all = append(all, d)
	}
	slices.Sort(all)
	t.Logf("%d messages for others: p50 %s, p99 %s, longest %s", len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	return all[len(all)*99/100]
}
