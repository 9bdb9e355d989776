// Package indexer takes every event from the broker and writes it to the
// store: take, batch, write, acknowledge. A message is acknowledged only when
// the store has answered for its document; nothing is dropped and nothing is
// requeued in a loop.
package indexer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Store is where the indexer writes.
type Store interface {
	// Create writes documents and answers for each in order. Its error is a
	// *schemas.StoreError: nothing is known of any of them.
	Create(ctx context.Context, documents []schemas.Document) ([]schemas.Result, error)

	// Find looks documents up by id wherever they may be, however old.
	Find(ctx context.Context, ids []string) (map[string]schemas.Stored, error)

	// Sequences reads event.sequence of documents, as just written.
	Sequences(ctx context.Context, documents []schemas.Stored) (map[schemas.Stored]int64, error)

	// HighestSequence is the highest event.sequence stored, 0 where there is none.
	HighestSequence(ctx context.Context) (int64, error)
}

// Broker is where the indexer consumes.
type Broker interface {
	Consume(ctx context.Context, q rabbit.ConsumeConfig, each func(ctx context.Context, s *rabbit.Session) error) error
}

// Publisher keeps what is too large for the store.
type Publisher interface {
	Publish(ctx context.Context, m rabbit.Message) error
}

// Config says what is indexed and how. Every field but Batch, Format and
// GiveBack is needed.
type Config struct {
	Broker    Broker
	Publisher Publisher
	Store     Store
	Decoder   schemas.Decoder
	Format    schemas.DocumentFormat
	Batch     Batch
	Logger    *slog.Logger

	// GiveBack is how long the store may be away before the messages at hand
	// go back to their queue, so that none outstays RabbitMQ's
	// acknowledgement time-out (https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout).
	// Zero: 3 minutes.
	GiveBack time.Duration
}

// Batch says when a bulk request is sent: at whichever bound is reached first.
type Batch struct {
	Events int           // documents; zero: 1000
	Bytes  int           // of message bodies; zero: 5 MiB
	Wait   time.Duration // after the first event; zero: 200 ms
}

func (b Batch) withDefaults() Batch {
	if b.Events <= 0 {
		b.Events = 1000
	}
	if b.Bytes <= 0 {
		b.Bytes = 5 << 20
	}
	if b.Wait <= 0 {
		b.Wait = 200 * time.Millisecond
	}
	return b
}

// Indexer moves events from the queues to the store.
type Indexer struct {
	cfg      Config
	sequence clock
}

// New checks nothing and connects to nothing.
func New(cfg Config) *Indexer {
	cfg.Batch = cfg.Batch.withDefaults()
	if cfg.GiveBack <= 0 {
		cfg.GiveBack = 3 * time.Minute
	}
	return &Indexer{cfg: cfg, sequence: clock{now: time.Now}}
}

// Run indexes until ctx ends; then it writes and acknowledges what it has at
// hand, within a few seconds, and returns. What it could not write stays in
// the queues.
func (x *Indexer) Run(ctx context.Context) error {
	topology := x.cfg.Decoder.Topology
	queues := map[string]take{
		topology.Log():       x.takeLifecycle,
		topology.Index():     x.takeTapped,
		topology.IndexLate(): x.takeTapped,
	}
	var running sync.WaitGroup
	failures := make(chan error, len(queues))
	for queue, take := range queues {
		running.Go(func() { failures <- x.drain(ctx, queue, take) })
	}
	running.Wait()
	close(failures)
	for err := range failures {
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("indexing: %w", err)
		}
	}
	return nil
}

// drain indexes one queue. While the store is away nobody consumes: the queue
// keeps the messages.
func (x *Indexer) drain(ctx context.Context, queue string, take take) error {
	for {
		if err := x.awaitStore(ctx, queue); err != nil {
			return err
		}
		err := x.cfg.Broker.Consume(ctx, rabbit.ConsumeConfig{
			Queue:    queue,
			Prefetch: min(prefetchBatches*x.cfg.Batch.Events, maxPrefetch),
		}, func(ctx context.Context, session *rabbit.Session) error {
			return x.session(ctx, session, take)
		})
		if ctx.Err() != nil || err == nil {
			return err
		}
		x.cfg.Logger.Error("gave the messages at hand back to the queue", "queue", queue, "error", err)
	}
}

const (
	prefetchBatches = writers + 2 // those being written, one ready, one being collected
	maxPrefetch     = 65535       // AMQP 0-9-1 basic.qos: a short
)

// awaitStore returns when the store answers, and raises the sequence above
// everything that any indexer has stored.
func (x *Indexer) awaitStore(ctx context.Context, queue string) error {
	pause := backoff{}
	for {
		highest, err := x.cfg.Store.HighestSequence(ctx)
		if err == nil {
			x.sequence.raise(highest)
			return nil
		}
		if pause.attempt == 0 {
			x.cfg.Logger.Warn("waiting for the store; messages stay in their queue", "queue", queue, "error", err)
		}
		if err := pause.wait(ctx, 0); err != nil {
			return err
		}
	}
}
