package pipelinetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/pipeline/pipelinetest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// In a test, t is its *testing.T, and the pipeline ends with it.
func ExampleStart() {
	t := &exampleT{}
	defer t.end()
	p := pipelinetest.Start(t, pipeline.Config{Routes: []pipeline.Route{{
		Queue:   "orders",
		Publish: pipeline.Binding{Exchange: "billing", Key: "invoice"},
		Handler: func(msg *message.Message) ([]*message.Message, error) {
			return []*message.Message{message.NewMessage("", []byte("invoice for "+string(msg.Payload)))}, nil
		},
	}}})

	order := p.Publish(schemas.Envelope{RoutingKey: "orders", Body: []byte("tea")})
	for _, invoice := range order.Handled() {
		fmt.Println(invoice.Exchange, invoice.RoutingKey, string(invoice.Body))
	}
	// Output: billing invoice invoice for tea
}

// A message whose second attempt cannot succeed.
func ExampleMessage() {
	t := &exampleT{}
	defer t.end()
	p := pipelinetest.Start(t, pipeline.Config{Routes: []pipeline.Route{{
		Queue:  "orders",
		Policy: &retry.Policy{Delays: []time.Duration{time.Millisecond, time.Hour}},
		Handler: pipeline.JSON(func(ctx context.Context, o struct{ Product string }) ([]*message.Message, error) {
			if retry.AttemptFrom(ctx).Number == 1 {
				return nil, errors.New("the catalogue is being written")
			}
			return nil, retry.Permanent(fmt.Errorf("there is no product %s", o.Product))
		}),
	}}})

	pot := p.Publish(schemas.Envelope{RoutingKey: "orders", Body: []byte(`{"product": "pot"}`)})
	fmt.Println(pot.RetriedAfter(time.Millisecond).Failure.Message)
	fmt.Println(pot.Poisoned().Failure.Message)
	// Output:
	// the catalogue is being written
	// there is no product pot
}

// A message that was given up is found in the record and replayed to its queue.
func ExamplePipeline_Connection() {
	t := &exampleT{}
	defer t.end()
	ctx, cancel := context.WithCancel(context.Background())
	catalogue := map[string]bool{}
	p := pipelinetest.Start(t, pipeline.Config{Routes: []pipeline.Route{{
		Queue: "orders",
		Handler: pipeline.JSON(func(ctx context.Context, product string) ([]*message.Message, error) {
			if !catalogue[product] {
				return nil, retry.Permanent(fmt.Errorf("there is no product %s", product))
			}
			return nil, nil
		}),
	}}})
	store := newStore(ctx, t)
	recording := make(chan error, 1)
	go func() {
		recording <- indexer.New(indexer.Config{Connection: p.Connection(), Store: store, Batch: indexer.Batch{Wait: time.Millisecond}}).Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-recording })

	pot := p.Publish(schemas.Envelope{RoutingKey: "orders", Body: []byte(`"pot"`)})
	fmt.Println(pot.Poisoned().Failure.Message)
	catalogue["pot"] = true

	r := replayer.New(replayer.Config{Connection: p.Connection(), Store: store, Jobs: store})
	job := replayer.Job{Query: "action: poisoned and queue: orders", Target: replayer.Target{Kind: replayer.ToFailedQueue}, Operator: "ada"}
	plan, err := r.Plan(ctx, job)
	for ; err == nil && plan.Matched == 0; plan, err = r.Plan(ctx, job) { // the record follows
		time.Sleep(10 * time.Millisecond)
	}
	if err == nil {
		job, err = r.Create(ctx, plan)
	}
	if err == nil {
		job, err = r.Run(ctx, job.ID, replayer.RunOptions{})
	}
	pot.Handled()
	fmt.Println(job.State, job.Sent, err)
	// Output:
	// there is no product pot
	// done 1 <nil>
}

// newStore returns a store whose file is deleted at the end of the test.
func newStore(ctx context.Context, t *exampleT) *sqlite.Store {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // t.TempDir, in a test
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "events.db")})
	if err == nil {
		err = store.Install(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// exampleT is a test that an example is.
type exampleT struct{ cleanups []func() }

func (t *exampleT) Helper() {}

func (t *exampleT) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *exampleT) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func (t *exampleT) end() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		t.cleanups[last]()
		t.cleanups = t.cleanups[:last]
	}
}
