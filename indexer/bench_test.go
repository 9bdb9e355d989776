package indexer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/gctuning"
	"github.com/watershipmq/watership/schemas"
)

// BenchmarkIndexer compares the indexer with the minimal work of any indexer: one
// operation drains all messages (1 KiB, 8 headers, 20 keys, persistent) from a queue, in
// five alternating ways. Run it with
// -benchtime 1x; WATERSHIP_BENCH_MESSAGES says how many messages (200,000).
func BenchmarkIndexer(b *testing.B) {
	gctuning.Apply(gctuning.ServeLimit(64 << 20)) // as `watership serve` does
	count := 200_000
	if text := os.Getenv("WATERSHIP_BENCH_MESSAGES"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for round := range 2 {
		for _, way := range []struct {
			name string
			way  way
		}{
			{"a=drain and discard", discard},
			{"b=index into a stub", indexInto(startStub(b))},
			{"c=index into Elasticsearch", indexInto(storeURL(b))},
			{"d=drain and send what is encoded", sendEncoded},
			{"e=drain and send minimal documents", sendMinimal},
		} {
			b.Run(fmt.Sprintf("%s/round=%d", way.name, round+1), func(b *testing.B) { measure(b, count, way.way) })
		}
	}
}

// way prepares one way to drain the index queue and returns the function to measure.
type way func(b *testing.B, s *system, count int) func()

func measure(b *testing.B, count int, way way) {
	pids := rabbittest.Servers(b)
	pids["own"] = os.Getpid()
	for b.Loop() {
		b.StopTimer()
		s := newSystem(b, rabbittest.NewestServer(b))
		s.load(count)
		drain := way(b, s, count)
		before, began := rabbittest.CPU(pids), time.Now()
		b.StartTimer()
		drain()
		b.StopTimer()
		elapsed, after := time.Since(began), rabbittest.CPU(pids)
		b.ReportMetric(float64(count)/elapsed.Seconds(), "msg/s")
		for name, used := range after {
			b.ReportMetric(float64((used-before[name]).Nanoseconds())/1000/float64(count), name+"-µs/msg")
		}
		b.StartTimer()
	}
}

// load puts messages into the index queue, by the tap.
func (s *system) load(count int) {
	for first := 0; first < count; first += 1000 {
		var chunk []schemas.Envelope
		for n := range min(1000, count-first) {
			chunk = append(chunk, s.benchMessage(first+n))
		}
		s.publish(chunk...)
	}
}

// benchMessage has 1 KiB of JSON and 8 headers of several types.
func (s *system) benchMessage(n int) schemas.Envelope {
	e := s.message("bench", n)
	at := time.Unix(1760000000, 0).Add(time.Duration(n) * 10 * time.Millisecond)
	e.RoutingKey, e.Body = fmt.Sprintf("order.step_%02d", n%20), benchBody(n)
	e.Properties.CorrelationID, e.Properties.Timestamp = fmt.Sprintf("corr-%010d", n/3), at
	e.Properties.Type, e.Properties.AppID = "domain.event", "bench"
	e.Headers = amqp091.Table{
		"x-tenant": fmt.Sprint("t", n%40), "x-source": "billing-service", "x-trace-id": fmt.Sprintf("%032x", n*7919),
		"x-attempt": int64(n % 5), "x-size": int32(1024 + n%512), "x-test": n%2 == 0, "x-produced-at": at,
		"x-origin": amqp091.Table{"region": "eu-west-1", "zone": int64(n % 3), "canary": false},
	}
	return e
}

func benchBody(n int) []byte {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	words := []string{
		"delivered", "to the \"front\" desk", "customer asked for a call\nbefore noon", "naïve café", "priority handling",
		"gift wrap", "left with neighbour", "signature <required>", "fragile & heavy", "paid by card",
	}
	var lines []any
	for line := range 4 {
		lines = append(lines, map[string]any{
			"sku": fmt.Sprintf("SKU-%06d", random.IntN(1000000)), "qty": line + 1, "price": float64(random.IntN(10000)) / 100,
		})
	}
	var notes []string
	for size := 0; size < 575; {
		note := words[random.IntN(len(words))]
		notes, size = append(notes, note), size+len(note)+len(`"",`)
	}
	body, _ := json.Marshal(map[string]any{
		"id": fmt.Sprintf("evt-%09d", n), "tenant": fmt.Sprintf("t%02d", n%40), "version": 3,
		"occurred_at": time.Unix(1760000000+int64(n/100), 0).UTC(),
		"actor": map[string]any{
			"id": random.IntN(100000), "name": fmt.Sprintf("user%05d", random.IntN(100000)),
			"ip": fmt.Sprintf("10.%d.%d.%d", random.IntN(256), random.IntN(256), random.IntN(256)), "roles": []string{"buyer", "admin"},
		},
		"amount": float64(random.IntN(1000000)) / 100, "currency": "EUR", "ok": random.IntN(2) == 0,
		"lines": lines, "notes": notes,
	})
	return body
}

func discard(b *testing.B, s *system, count int) func() {
	return s.drainQueue(b, count, func(int) error { return nil })
}

// drainQueue acknowledges messages in thousands, each after settle.
func (s *system) drainQueue(b *testing.B, count int, settle func(batch int) error) func() {
	conn := s.open(s.URL, true)
	return func() {
		err := conn.Consume(context.Background(), rabbit.ConsumeConfig{Queue: s.topology.Index(), Prefetch: 8000},
			func(ctx context.Context, session *rabbit.Session) error {
				return drainSession(ctx, session, count, settle)
			})
		if err != nil {
			b.Fatal(err)
		}
	}
}

const benchBatch = 1000

func drainSession(ctx context.Context, session *rabbit.Session, count int, settle func(batch int) error) error {
	type sent struct {
		tag  uint64
		done chan error
	}
	group, ctx := errgroup.WithContext(ctx)
	inOrder := make(chan sent, 1)
	group.Go(func() error {
		defer close(inOrder)
		for n := 1; n <= count; n++ {
			var d amqp091.Delivery
			select {
			case d = <-session.Deliveries:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if n%benchBatch == 0 || n == count {
				s := sent{d.DeliveryTag, make(chan error, 1)}
				group.Go(func() error { s.done <- settle((n - 1) / benchBatch); return nil })
				inOrder <- s
			}
		}
		return nil
	})
	group.Go(func() error {
		for s := range inOrder {
			if err := errors.Join(<-s.done, session.Ack(s.tag, true)); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

func indexInto(url string) way {
	return func(b *testing.B, s *system, count int) func() {
		store := &countingStore{Store: newStoreAt(b, url), all: make(chan struct{})}
		store.left.Store(int64(count))
		cfg := s.config(store)
		cfg.Batch = Batch{}
		cfg.Broker = rabbit.Consumer{Connection: s.open(s.URL, true)}
		indexer := New(cfg)
		return func() {
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- indexer.Run(ctx) }()
			<-store.all
			stop() // waits until all is written and acknowledged
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
			if left := s.Len(b, s.topology.Index()); left > 0 {
				b.Fatalf("%d messages are not indexed", left)
			}
		}
	}
}

// countingStore closes all when everything is stored.
type countingStore struct {
	Store
	left atomic.Int64
	all  chan struct{}
}

func (c *countingStore) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	results, err := c.Store.Create(ctx, documents)
	for _, result := range results {
		if result.Status == eventstore.Created && c.left.Add(-1) == 0 {
			close(c.all)
		}
	}
	return results, err
}

// sendEncoded is the limit of any indexer of these documents: they are encoded before.
func sendEncoded(b *testing.B, s *system, count int) func() {
	stream := streamName()
	store := openStore(b, storeURL(b), stream)
	if err := store.Install(patient(b)); err != nil {
		b.Fatal(err)
	}
	return s.sendBulks(b, count, "require_data_stream=true&", func(dst []byte, event schemas.Event) []byte {
		dst = fmt.Appendf(dst, "{\"create\":{\"_index\":\"%s-traffic\",\"_id\":%q}}\n", stream, event.EventID)
		return schemas.DocumentFormat{}.Append(dst, event)
	})
}

// sendMinimal is the limit of any indexer: its documents have the text of the body, and
// headers without their types.
func sendMinimal(b *testing.B, s *system, count int) func() {
	name := streamName()
	const index = `{"settings":{"index.codec":"best_compression","index.number_of_replicas":0},"mappings":{"dynamic":false,"properties":{
		"@timestamp":{"type":"date"},"exchange":{"type":"keyword"},"routing_key":{"type":"keyword"},"message_id":{"type":"keyword"},
		"headers":{"type":"flattened"},"body":{"type":"text","norms":false}}}}`
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPut, storeURL(b)+"/"+name, strings.NewReader(index))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		b.Fatal(answer.Status)
	}
	return s.sendBulks(b, count, "", func(dst []byte, event schemas.Event) []byte {
		e := event.Envelope
		source, _ := json.Marshal(map[string]any{
			"@timestamp": event.Time, "exchange": e.Exchange, "routing_key": e.RoutingKey,
			"message_id": e.Properties.MessageID, "headers": e.Headers, "body": string(e.Body),
		})
		dst = fmt.Appendf(dst, "{\"create\":{\"_index\":%q,\"_id\":%q}}\n", name, event.EventID)
		return append(dst, source...)
	})
}

// sendBulks drains the queue and sends documents that are encoded before.
func (s *system) sendBulks(b *testing.B, count int, parameters string, encode func(dst []byte, event schemas.Event) []byte) func() {
	bodies := make([][]byte, (count+benchBatch-1)/benchBatch)
	for n := range count {
		d := deliveryOf(s.benchMessage(n))
		event := s.decoder.Tapped(d, time.Now(), time.Now().UnixMicro()+int64(n))
		at := &bodies[n/benchBatch]
		*at = append(encode(*at, event), '\n')
	}
	url := storeURL(b) + "/_bulk?" + parameters + "filter_path=items.*._id,items.*.status,items.*.error"
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	return s.drainQueue(b, count, func(batch int) error {
		answer, err := client.Post(url, "application/x-ndjson", bytes.NewReader(bodies[batch]))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		if strings.Count(string(said), `"status":201`) != strings.Count(string(bodies[batch]), "\n")/2 {
			return fmt.Errorf("not all were created: %.300s", said)
		}
		return err
	})
}

func deliveryOf(e schemas.Envelope) amqp091.Delivery {
	return amqp091.Delivery{
		Exchange: e.Exchange, RoutingKey: e.RoutingKey, Headers: e.Headers, Body: e.Body,
		ContentType: e.Properties.ContentType, DeliveryMode: 2, MessageId: e.Properties.MessageID,
	}
}
