package shadow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/replayer/shadow"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A route of a pipeline is called with messages of the history. A finding is reported, and
// nothing is published.
func ExampleRun() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "shadow")
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "events.db")})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	if err := store.Install(ctx); err != nil {
		panic(err)
	}
	order := schemas.Event{Action: schemas.Handled, Sequence: 1, Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: "order", Body: []byte(`{"total": 7}`)}}
	order.Version, order.Time, order.Fingerprint, order.EventID, order.Queue = header.Version, time.Now(), order.Envelope.Fingerprint(), "event-1", "orders"
	if _, err := store.Create(ctx, []schemas.Document{schemas.DocumentFormat{}.Document(order)}); err != nil {
		panic(err)
	}

	route := pipeline.Route{Queue: "orders", Handler: func(*message.Message) ([]*message.Message, error) {
		return nil, retry.Permanent(errors.New("no currency"))
	}}
	report, err := shadow.Run(ctx, shadow.Config{
		Store: store, Query: "watership.queue: orders",
		Handler: func(ctx context.Context, m shadow.Message) (shadow.Result, error) {
			outgoing, err := route.Call(ctx, m.Envelope)
			return shadow.Result{Outgoing: outgoing}, err
		},
	})
	fmt.Println(report.Different(), report.Groups[0].Kind, report.Groups[0].Detail, err)
	// Output: 1 fails *errors.errorString: no currency <nil>
}

func ExampleIsShadow() {
	charge := func(ctx context.Context) string {
		if shadow.IsShadow(ctx) {
			return "not charged"
		}
		return "charged"
	}
	fmt.Println(charge(context.Background()))
	// Output: charged
}

func ExampleReport() {
	report := shadow.Report{Compared: 10, Same: 8}
	fmt.Println(report.Different())
	// Output: 2
}
