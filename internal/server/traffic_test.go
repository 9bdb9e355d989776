package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// The costs of a message, from its publish until its events are stored: CPU times of serve,
// of the broker and of Elasticsearch, and disk space. internal/cli/sizing has them.
func TestSoakTraffic(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	broker := rabbittest.NewestServer(t)
	for _, size := range []int{1 << 10, 10 << 10} {
		for _, handled := range []bool{false, true} {
			t.Run(fmt.Sprintf("size=%d,handled=%t", size, handled), func(t *testing.T) {
				measureTraffic(t, broker, 40_000*1024/(size+1024), size, handled)
			})
		}
	}
}

// TestSoakMemoryOfARoute bounds the memory of serve with every role while a route has 256
// messages in flight and 40,000 of 1 KiB arrive faster than they are handled.
func TestSoakMemoryOfARoute(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	const limit = 160 // MiB
	if peak := measureTraffic(t, rabbittest.NewestServer(t), 40_000, 1<<10, true) >> 20; peak > limit {
		t.Errorf("its peak is %d MiB, want at most %d", peak, limit)
	}
}

// measureTraffic returns the largest resident set of serve, in bytes.
func measureTraffic(t *testing.T, broker rabbittest.Broker, messages, size int, handled bool) (peak int) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer receiver.Close()
	i := servertest.Install(t, broker, receiver.URL)
	i.Rewrite(t, "concurrency: 32", "concurrency: 256")
	i.Rewrite(t, "wait: 50ms", "wait: 500ms")
	events := 2
	if !handled {
		events = 1
		i.Rewrite(t, `key: "#"`, `key: "none"`)
	}
	pids := rabbittest.Servers(t)
	pids["serve"] = i.Serve(t).Cmd.Process.Pid
	publisher, bodies := i.Publisher(t), servertest.TrafficBodies(size)
	before, began := rabbittest.CPU(pids), time.Now()
	pending := make([]*rabbit.Pending, messages)
	for n := range messages {
		sent, err := publisher.Send(t.Context(), rabbit.Message{Exchange: i.Exchange, RoutingKey: fmt.Sprint("orders.", n%20), Publishing: amqp.Publishing{
			DeliveryMode: amqp.Persistent, ContentType: "application/json", MessageId: fmt.Sprint("m", n), Timestamp: began, Body: bodies[n%len(bodies)],
			Headers: amqp.Table{"tenant": fmt.Sprint("t", n%50), "attempt": int64(n % 5), "size": int32(size), "test": n%2 == 0, "produced": began, "trace": fmt.Sprintf("%032x", n), "region": "eu-west-1", "version": "2026-11"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		pending[n] = sent
	}
	for _, sent := range pending {
		if err := sent.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Until(t, "all events to be stored", func() bool { return stored(t, i) == messages*events })
	elapsed := time.Since(began)
	time.Sleep(2 * time.Second) // Elasticsearch's merges; the figures include what it does meanwhile
	after := rabbittest.CPU(pids)
	each := func(name string) float64 {
		return float64((after[name] - before[name]).Microseconds()) / float64(messages)
	}
	peak = rabbittest.PeakMemory(pids["serve"])
	t.Logf("%d messages of %d bytes, %d event(s) each: %.0f/s; CPU of one in µs: serve %.0f, broker %.0f, store %.0f; disk %d bytes; at most %d MiB",
		messages, size, events, float64(messages)/elapsed.Seconds(), each("serve"), each("broker"), each("store"), diskSpace(t, i)/int64(messages), peak>>20)
	return peak
}

// stored returns the number of events in Elasticsearch.
func stored(t *testing.T, i *servertest.Installation) int {
	t.Helper()
	var answer struct{ Count int }
	if err := json.Unmarshal(i.AskStore(t, http.MethodGet, i.Stream+"-*/_count", ""), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Count
}

// diskSpace returns the bytes of all events after a merge.
func diskSpace(t *testing.T, i *servertest.Installation) int64 {
	t.Helper()
	i.AskStore(t, http.MethodPost, i.Stream+"-*/_forcemerge?max_num_segments=1", "")
	var answer struct {
		All struct {
			Primaries struct {
				Store struct {
					Size int64 `json:"size_in_bytes"`
				}
			}
		} `json:"_all"`
	}
	if err := json.Unmarshal(i.AskStore(t, http.MethodGet, i.Stream+"-*/_stats/store", ""), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.All.Primaries.Store.Size
}
