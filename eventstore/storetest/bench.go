package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// BenchEvents returns the events of benchmarks: `published` events of messages with 1 KiB of JSON, 8 headers of several
// types and 20 routing keys.
func BenchEvents(count int) []schemas.Event {
	random := rand.New(rand.NewPCG(1, 2))
	decoder := wire.Decoder{Source: "rabbit@shop/bench", VHost: "bench"}
	events := make([]schemas.Event, count)
	for n := range events {
		at := time.Unix(1760000000, 0).Add(time.Duration(n) * 10 * time.Millisecond)
		delivery := amqp.Delivery{
			Exchange: "bench.events", RoutingKey: fmt.Sprintf("order.step_%02d", n%20), ContentType: "application/json", DeliveryMode: 2,
			MessageId: fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n), CorrelationId: fmt.Sprintf("corr-%010d", n/3),
			Timestamp: at, Type: "domain.event", AppId: "bench", Body: benchBody(random, n),
			Headers: amqp.Table{
				"x-tenant": fmt.Sprint("t", n%40), "x-source": "billing-service", "x-trace-id": fmt.Sprintf("%032x", n*7919),
				"x-attempt": int64(n % 5), "x-size": int32(1024 + n%512), "x-test": n%2 == 0, "x-produced-at": at,
				"x-origin": amqp.Table{"region": "eu-west-1", "zone": int64(n % 3), "canary": false},
			},
		}
		received := at.Add(3 * time.Millisecond)
		events[n] = decoder.Tapped(delivery, received, received.UnixMicro())
		events[n].Ingested = received
	}
	return events
}

func benchBody(random *rand.Rand, n int) []byte {
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
