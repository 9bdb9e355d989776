package eventstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/schemas"
)

func ExampleFields() {
	fields, err := eventstore.Fields()
	if err != nil {
		fmt.Println(err)
		return
	}
	field, known := fields.Lookup("watership.attempt")
	fmt.Println(field.Type, known)
	// Output: long true
}

// A misspelt name is an error, as it would find nothing.
func ExampleParseQuery() {
	now := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	query, err := eventstore.ParseQuery("queue: orders and @timestamp >= now-1h", now)
	fmt.Println(query, err)
	_, err = eventstore.ParseQuery("quue: orders", now)
	fmt.Println(err)
	// Output:
	// watership.queue: orders and @timestamp >= "2026-05-04T03:00:00.000Z||-1h" <nil>
	// no field "quue"; did you mean watership.queue?
	// quue: orders
	// ^
}

func ExampleNewSteps() {
	now := time.Date(2026, 5, 4, 3, 20, 0, 0, time.UTC)
	steps := eventstore.NewSteps(now.Add(-24*time.Hour), now, 30, time.UTC)
	fmt.Println(steps.Count, steps.Length, steps.Text(0), steps.At(steps.Count).Format(time.DateTime))
	// Output: 25 1h0m0s 2026-05-03T03:00:00.000Z 2026-05-04 04:00:00
}

// Failures that differ in ids alone have one group.
func ExampleSummarize() {
	event := schemas.Event{Action: schemas.Poisoned}
	event.Queue, event.Failure.Message = "orders", "order 4711 has no lines"
	summary := eventstore.Summarize(event)
	fmt.Println(summary.Action, summary.Queue, summary.ErrorGroup)
	// Output: poisoned orders order # has no lines
}

// A page continues after the last event of the page before.
func ExampleCursorAt() {
	last := schemas.Event{Sequence: 7}
	last.EventID, last.Time = "e-7", time.Date(2026, 5, 4, 3, 0, 0, 123456789, time.UTC)
	next := eventstore.Selection{Limit: 50, After: eventstore.CursorAt(last)}
	fmt.Println(next.After.Sequence, next.After.EventID, next.After.Time.Format(time.RFC3339Nano))
	// Output: 7 e-7 2026-05-04T03:00:00.123Z
}

func ExampleMappingsTemplate() {
	fmt.Println(bytes.Contains(eventstore.MappingsTemplate(), []byte(`"dynamic": false`)))
	// Output: true
}

func ExampleFailuresMappingsTemplate() {
	fmt.Println(bytes.Contains(eventstore.FailuresMappingsTemplate(), []byte(`"fingerprint"`)))
	// Output: true
}

func ExampleStreamTemplate() {
	body, err := eventstore.StreamTemplate("watership-messages-traffic", "30d", "watership-messages-mappings")
	fmt.Println(bytes.Contains(body, []byte(`"data_retention":"30d"`)), err)
	// Output: true <nil>
}

// exampleStore opens a store without events in a folder that remove deletes.
func exampleStore(ctx context.Context) (store *sqlite.Store, remove func()) {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	store, err = sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(folder, "events.db")})
	if err == nil {
		err = store.Install(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	return store, func() { store.Close(); os.RemoveAll(folder) }
}

func ExampleComplete() {
	ctx := context.Background()
	store, remove := exampleStore(ctx)
	defer remove()
	upTo, err := eventstore.Complete(ctx, store, "shop")
	fmt.Println("every event up to", upTo, "is stored", err)
	// Output: every event up to 0 is stored <nil>
}

func ExampleReadWatermarks() {
	ctx := context.Background()
	store, remove := exampleStore(ctx)
	defer remove()
	watermarks, version, err := eventstore.ReadWatermarks(ctx, store, "shop")
	fmt.Printf("%d queues, version %q, %v\n", len(watermarks.Queues), version, err)
	// Output: 0 queues, version "", <nil>
}

func ExampleWatermarks_Bound() {
	w := eventstore.Watermarks{Source: "shop", Queues: map[string]eventstore.Watermark{
		"watership.index": {Session: "a", Sequence: 1764000000000000},
		"watership.log":   {Session: "a", Sequence: 1764000000000007},
	}}
	fmt.Println(w.Bound())
	// Output: 1764000000000000 true
}

func ExampleReadRecord() {
	ctx := context.Background()
	store, remove := exampleStore(ctx)
	defer remove()
	count := 0
	version, err := eventstore.ReadRecord(ctx, store, "count", "orders", &count)
	fmt.Printf("%d of version %q, %v\n", count, version, err)
	// Output: 0 of version "", <nil>
}

// Of two processes that change the same version, the first succeeds.
func ExampleSaveRecord() {
	ctx := context.Background()
	store, remove := exampleStore(ctx)
	defer remove()
	for range 2 {
		version, err := eventstore.SaveRecord(ctx, store, "count", "orders", "", 1)
		fmt.Println(version != "", err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleByName() {
	fmt.Println(eventstore.ByName([]string{"order-42"}))
	// Output: messaging.message.id: "order-42" or watership.message: "order-42" or event.id: "order-42"
}

func ExampleOrder() {
	slowest := eventstore.Selection{Query: kql.FieldIs("queue", "orders"), Order: eventstore.SlowestInHandler, Limit: 10}
	fmt.Println(slowest.Order.Time())
	// Output: event.duration
}

// Only removed events that a query can match are missing for its reader.
func ExampleRemoved() {
	removed := eventstore.Removed{Marks: eventstore.Marks{schemas.Traffic: 1764000000000000, schemas.Failures: 1750000000000000}}
	fmt.Println(removed.UpTo(nil), removed.UpTo(kql.FieldIs("event.action", "poisoned")))
	// Output: 1764000000000000 1750000000000000
}

// Orders are kept for two years, other messages as long as all traffic.
func ExampleKeepRules() {
	rules := eventstore.KeepRules{{Exchange: "shop", Key: "order.#", Keep: 730 * 24 * time.Hour}}
	event := schemas.Event{Action: schemas.Published, Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: "order.paid"}}
	fmt.Println(rules.StreamOf(event))
	event.Envelope.RoutingKey = "customer.moved"
	fmt.Println(rules.StreamOf(event))
	// Output:
	// traffic@730d
	// traffic
}

// By the rules no order is in the traffic; before they were applied some may have been.
func ExampleKeptBy() {
	orders := kql.And{kql.FieldIs("event.action", "published"), kql.FieldIs("messaging.destination.name", "orders")}
	removed := eventstore.Removed{
		Marks: eventstore.Marks{schemas.Traffic: 1764000000000000},
		Kept:  eventstore.KeptBy{Rules: eventstore.KeepRules{{Exchange: "orders"}}, Since: 1750000000000000},
	}
	fmt.Println(removed.UpTo(orders))
	// Output: 1750000000000000
}

func ExampleMarks() {
	marks := eventstore.Marks{}
	marks.Add(schemas.Traffic.For(0), 7)
	marks.Add(schemas.Traffic.For(0), 3)
	fmt.Println(marks)
	// Output: map[traffic@forever:7]
}
