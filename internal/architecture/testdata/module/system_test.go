// Package service_test is a program of another module that uses each public package of
// Watership.
package service_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// TestReplayOfAFailure: an order fails for good, its events are stored, and a replay
// sends it again with another header.
func TestReplayOfAFailure(t *testing.T) {
	b := broker.Start(t, broker.Config{})
	store := newStore(t)
	var isMended atomic.Bool
	tenants := make(chan any, 10)
	p, err := pipeline.New(pipeline.Config{
		Standalone: true,

		Connection: rabbitmq.Connection{URL: b.URL()}, QueueType: pipeline.Classic, Tap: []pipeline.Tap{{Exchange: "shop", Type: "topic"}},
		Routes: []pipeline.Route{{
			Queue: "orders", Bind: []pipeline.Binding{{Exchange: "shop", Key: "#"}},
			Handler: func(m *message.Message) ([]*message.Message, error) {
				if !isMended.Load() {
					return nil, retry.Permanent(errors.New("no stock"))
				}
				order, _ := schemas.FromContext(m.Context())
				tenants <- order.Headers["tenant"]
				return nil, nil
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, p.Run)
	<-p.Running()
	run(t, indexer.New(indexer.Config{Connection: rabbitmq.Connection{URL: b.URL()}, Store: store}).Run)
	publish(t, b.URL())
	await(t, store, "event.action: poisoned")

	isMended.Store(true)
	r := replayer.New(replayer.Config{Connection: rabbitmq.Connection{URL: b.URL()}, ManagementURL: b.StartManagement(t), Store: store, Jobs: store})
	plan, err := r.Plan(t.Context(), replayer.Job{
		Query: "event.action: poisoned", Target: replayer.Target{Kind: replayer.ToFailedQueue},
		Changes: edit.Changes{Set: []string{"tenant=acme"}}, Operator: "ada",
	})
	if err != nil || plan.Matched != 1 || plan.Unroutable() != 0 {
		t.Fatalf("%d to send, %d to no queue (%v)", plan.Matched, plan.Unroutable(), err)
	}
	job, err := r.Create(t.Context(), plan)
	if err == nil {
		job, err = r.Run(t.Context(), job.ID, replayer.RunOptions{})
	}
	if err != nil || job.State != replayer.Done || job.Sent != 1 {
		t.Fatalf("the job is %s, sent %d (%v)", job.State, job.Sent, err)
	}
	if tenant := <-tenants; tenant != "acme" {
		t.Errorf("the order is of tenant %v", tenant)
	}
	await(t, store, "event.action: handled and watership.replay.job: *")
}

func newStore(t *testing.T) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
	if err == nil {
		t.Cleanup(func() { _ = store.Close() })
		err = store.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// run runs a part until the test ends.
func run(t *testing.T, part func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func publish(t *testing.T, url string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	confirm, err := ch.PublishWithDeferredConfirm("shop", "order.created", true, false, amqp.Publishing{MessageId: "17", Body: []byte("a violin")})
	if err != nil || !confirm.Wait() {
		t.Fatalf("the broker did not confirm the order (%v)", err)
	}
}

// await waits until the store has an event.
func await(t *testing.T, store *sqlite.Store, text string) {
	t.Helper()
	query, err := kql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		count, err := store.Count(t.Context(), eventstore.Selection{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		if count > 0 {
			return
		}
	}
	t.Fatalf("the store has no event that matches %s", text)
}
