package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
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
	i := install(t, broker, receiver.URL)
	i.rewrite(t, "concurrency: 32", "concurrency: 256")
	i.rewrite(t, "wait: 50ms", "wait: 500ms")
	events := 2
	if !handled {
		events = 1
		i.rewrite(t, `key: "#"`, `key: "none"`)
	}
	pids := rabbittest.Servers(t)
	pids["serve"] = i.serve(t).cmd.Process.Pid
	publisher, bodies := i.publisher(t), trafficBodies(size)
	before, began := rabbittest.CPU(pids), time.Now()
	pending := make([]*rabbit.Pending, messages)
	for n := range messages {
		sent, err := publisher.Send(t.Context(), rabbit.Message{Exchange: i.exchange, RoutingKey: fmt.Sprint("orders.", n%20), Publishing: amqp.Publishing{
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
	until(t, "all events to be stored", func() bool { return i.stored(t) == messages*events })
	elapsed := time.Since(began)
	time.Sleep(2 * time.Second) // Elasticsearch's merges; the figures include what it does meanwhile
	after := rabbittest.CPU(pids)
	each := func(name string) float64 {
		return float64((after[name] - before[name]).Microseconds()) / float64(messages)
	}
	peak = rabbittest.PeakMemory(pids["serve"])
	t.Logf("%d messages of %d bytes, %d event(s) each: %.0f/s; CPU of one in µs: serve %.0f, broker %.0f, store %.0f; disk %d bytes; at most %d MiB",
		messages, size, events, float64(messages)/elapsed.Seconds(), each("serve"), each("broker"), each("store"), i.diskSpace(t)/int64(messages), peak>>20)
	return peak
}

// trafficBodies are JSON documents with texts and numbers, of about a size.
func trafficBodies(size int) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := func(n int) string {
		text := make([]string, n)
		for i := range text {
			text[i] = fmt.Sprintf("%05x", random.IntN(20_000))
		}
		return strings.Join(text, " ")
	}
	bodies := make([][]byte, 2000)
	for n := range bodies {
		order := map[string]any{"order": fmt.Sprintf("o-%08d", random.IntN(100_000_000)), "customer": fmt.Sprint("c-", random.IntN(10_000)), "currency": "EUR"}
		var items []map[string]any
		for len(bodies[n]) < size {
			items = append(items, map[string]any{
				"sku": fmt.Sprintf("SKU-%06d", random.IntN(1_000_000)), "name": words(4), "quantity": random.IntN(9) + 1, "price": random.IntN(100_000), "gift": random.IntN(3) == 0,
			})
			order["items"] = items
			bodies[n], _ = json.Marshal(order)
		}
	}
	return bodies
}

// stored returns the number of events in Elasticsearch.
func (i *installation) stored(t *testing.T) int {
	t.Helper()
	var answer struct{ Count int }
	if err := json.Unmarshal(i.askStore(t, http.MethodGet, i.stream+"-*/_count", ""), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Count
}

// diskSpace returns the bytes of all events after a merge.
func (i *installation) diskSpace(t *testing.T) int64 {
	t.Helper()
	i.askStore(t, http.MethodPost, i.stream+"-*/_forcemerge?max_num_segments=1", "")
	var answer struct {
		All struct {
			Primaries struct {
				Store struct {
					Size int64 `json:"size_in_bytes"`
				}
			}
		} `json:"_all"`
	}
	if err := json.Unmarshal(i.askStore(t, http.MethodGet, i.stream+"-*/_stats/store", ""), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.All.Primaries.Store.Size
}
