package subscription_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// A handler gets each order, and goes on at its checkpoint when the program starts again.
func ExampleSubscriptions_Run() {
	store, remove, err := threeOrders()
	if err != nil {
		log.Fatal(err)
	}
	defer remove()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := subscription.New(subscription.Config{Store: store, Source: "shop", Connection: rabbitmq.Connection{URL: os.Getenv("AMQP_URL")}})
	_, err = s.Create(ctx, subscription.Subscription{
		Name: "projection", Query: "routing_key: order.created", Target: subscription.Target{Kind: subscription.ToHandler},
	}, subscription.From{})
	if err != nil {
		log.Fatal(err)
	}
	err = s.Run(ctx, "projection", func(_ context.Context, d subscription.Delivery) error {
		fmt.Println(d.Position.Sequence, string(d.Event.Envelope.Body))
		if d.Position.Sequence == 3 { // a program would go on and get each new order
			cancel()
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// 1 {"order":1}
	// 2 {"order":2}
	// 3 {"order":3}
	// <nil>
}

// A channel gets a delivery, and the next one after Done.
func ExampleReceived() {
	store, remove, err := threeOrders()
	if err != nil {
		log.Fatal(err)
	}
	defer remove()
	ctx, cancel := context.WithCancel(context.Background())
	s := subscription.New(subscription.Config{Store: store, Source: "shop", Connection: rabbitmq.Connection{URL: os.Getenv("AMQP_URL")}})
	if _, err := s.Create(ctx, subscription.Subscription{Name: "orders", Target: subscription.Target{Kind: subscription.ToHandler}}, subscription.From{}); err != nil {
		log.Fatal(err)
	}
	deliveries, ended := make(chan subscription.Received), make(chan error, 1)
	go func() { ended <- s.Send(ctx, "orders", deliveries) }()
	first := <-deliveries
	fmt.Println(string(first.Event.Envelope.Body))
	first.Done(nil)
	fmt.Println(string((<-deliveries).Event.Envelope.Body))
	cancel()
	fmt.Println(<-ended)
	// Output:
	// {"order":1}
	// {"order":2}
	// <nil>
}

// A poison message stops this subscription after three attempts.
func ExampleSubscription() {
	sub := subscription.Subscription{
		Name:     "warehouse",
		Query:    "event.action: (published or poisoned) and routing_key: order.*",
		Target:   subscription.Target{Kind: subscription.ToURL, URL: "https://warehouse.example.com/orders"},
		OnPoison: subscription.Stop,
		Policy:   &retry.Policy{Delays: []time.Duration{time.Second, time.Minute}},
	}
	fmt.Println(sub.Name, "delivers to", sub.Target)
	// Output: warehouse delivers to https://warehouse.example.com
}

func ExampleParseFrom() {
	from, err := subscription.ParseFrom("2026-01-31T12:00:00Z", time.Now())
	fmt.Println(from.Time, err)
	from, err = subscription.ParseFrom("1764000000000000:shop:v1:ab", time.Now())
	fmt.Println(subscription.FormatPosition(from.Position), err)
	// Output:
	// 2026-01-31 12:00:00 +0000 UTC <nil>
	// 1764000000000000:shop:v1:ab <nil>
}

// threeOrders returns a store with three published orders.
func threeOrders() (store *sqlite.Store, remove func(), err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, nil, err
	}
	if store, err = sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "events.db")}); err != nil {
		return nil, nil, err
	}
	if err := store.Install(ctx); err != nil {
		return nil, nil, err
	}
	var documents []schemas.Document
	for n := range int64(3) {
		e := schemas.Event{Action: schemas.Published, Sequence: n + 1, Source: "shop", VHost: "/"}
		e.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: fmt.Appendf(nil, `{"order":%d}`, n+1)}
		e.Time, e.Fingerprint, e.EventID = time.UnixMicro(n+1), e.Envelope.Fingerprint(), fmt.Sprintf("shop:%d", n+1)
		documents = append(documents, schemas.DocumentFormat{}.Document(e))
	}
	_, err = store.Create(ctx, documents)
	return store, func() { store.Close(); os.RemoveAll(dir) }, err
}

func ExampleAttempts() {
	policy := subscription.Attempts(8)
	fmt.Println(policy.AllDelays(), policy.MaxAttempts())
	// Output: [1s 4s 16s 1m0s] 8
}
