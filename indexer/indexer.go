// Package indexer takes every event from the broker and writes it to the
// store: take, batch, write, acknowledge. A message is acknowledged only when
// the store has answered for its document; nothing is dropped and nothing is
// requeued in a loop.
package indexer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

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

	// HighestSequenceOf is that of the events of a source, 0 where there is none.
	HighestSequenceOf(ctx context.Context, source string) (int64, error)

	// KnownJobs says which replays there are, of those with some ids, as just stored.
	KnownJobs(ctx context.Context, ids []string) (map[string]bool, error)

	// Handover is what SaveHandover kept last under a name, nil where it kept nothing.
	Handover(ctx context.Context, name string) ([]byte, error)

	// SaveHandover keeps a JSON document under a name, in the place of the one before.
	SaveHandover(ctx context.Context, name string, document []byte) error
}

// Broker is where the indexer consumes, and looks into the queue of unstorable messages.
type Broker interface {
	Do(ctx context.Context, f func(*amqp.Channel) error) error
	Consume(ctx context.Context, q rabbit.ConsumeConfig, each func(ctx context.Context, s *rabbit.Session) error) error
}

// Publisher keeps what is too large for the store.
type Publisher interface {
	Publish(ctx context.Context, m rabbit.Message) error
}

// Config says what is indexed and how. Broker, Publisher, Store and Decoder
// are needed.
type Config struct {
	Broker    Broker
	Publisher Publisher
	Store     Store
	Decoder   schemas.Decoder
	Format    schemas.DocumentFormat
	Batch     Batch

	// Memory bounds what is in flight, in bytes: half of it for messages
	// received and not acknowledged yet, of each queue, half for documents being
	// written. What comes again after a crash is encoded before it is written, up to
	// half of it for each queue besides. A single message may be larger. The first
	// is kept by asking the broker for fewer messages, so that messages that
	// suddenly grow can exceed it until that is noticed. Zero: 64 MiB.
	Memory int

	// RequeueAfter is how long the store may be away before the messages at hand
	// go back to their queue, so that none outstays RabbitMQ's
	// acknowledgement time-out of 30 minutes
	// (https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout).
	// Zero: 3 minutes.
	RequeueAfter time.Duration

	// Retention is how long the store keeps documents. A message that is too large
	// for it is kept in a queue for as long. A stream that is not in it, or has 0,
	// keeps them for ever.
	Retention map[schemas.Stream]time.Duration

	Logger     *slog.Logger          // nil: nobody is told
	Registerer prometheus.Registerer // of the metrics, for one indexer; nil: nobody sees them
	Now        func() time.Time      // the clock of event.sequence; nil: time.Now
}

// Batch says when a bulk request is sent: at whichever bound is reached first.
// The indexer begins with less at once and grows while that costs the store no
// more; when the store has too much to do it asks less of it.
type Batch struct {
	Events int           // documents; zero: 2000
	Bytes  int           // of documents; zero: 5 MiB
	Wait   time.Duration // after the first event; zero: 200 ms
}

func (c Config) withDefaults() Config {
	c.Batch.Events = orDefault(c.Batch.Events, 2000)
	c.Batch.Bytes = orDefault(c.Batch.Bytes, 5<<20)
	c.Batch.Wait = orDefault(c.Batch.Wait, 200*time.Millisecond)
	c.Memory = orDefault(c.Memory, 64<<20)
	c.RequeueAfter = orDefault(c.RequeueAfter, 3*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func orDefault[T int | time.Duration](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// Indexer moves events from the queues to the store.
type Indexer struct {
	cfg         Config
	sequence    clock
	writeMemory *semaphore.Weighted // bytes of documents
	sizer       *batchSizer
	metrics     metrics
	progress    map[string]*queueProgress // by queue
	jobs        jobCache

	readFailure, writeFailure storeFailure // of the store
	consecutiveRefusals       atomic.Int64 // documents, since one was accepted
}

// New checks nothing and connects to nothing.
func New(cfg Config) *Indexer {
	cfg = cfg.withDefaults()
	topology, begun := cfg.Decoder.Topology, time.Now()
	return &Indexer{
		cfg:         cfg,
		sequence:    clock{now: cfg.Now},
		writeMemory: semaphore.NewWeighted(int64(cfg.Memory / 2)),
		sizer:       newBatchSizer(cfg.Batch),
		metrics:     newMetrics(cfg.Registerer),
		progress: map[string]*queueProgress{
			topology.Log(): {indexedUntil: begun}, topology.Index(): {indexedUntil: begun}, topology.IndexLate(): {indexedUntil: begun},
		},
	}
}

// Run indexes until ctx ends; then it writes and acknowledges what it has at
// hand, within a few seconds unless the store takes nothing, and returns. What it
// could not write stays in the queues.
func (x *Indexer) Run(ctx context.Context) error {
	topology := x.cfg.Decoder.Topology
	queues := map[string]addFunc{
		topology.Log():       x.addLifecycle,
		topology.Index():     x.addTapped,
		topology.IndexLate(): x.addTapped,
	}
	var running sync.WaitGroup
	failures := make(chan error, len(queues))
	for queue, take := range queues {
		running.Go(func() { failures <- x.consume(ctx, queue, take) })
	}
	running.Go(func() { x.removeExpiredPeriodically(ctx) })
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
func (x *Indexer) consume(ctx context.Context, queue string, take addFunc) error {
	flow := newPrefetchTuner(x.cfg.Memory/2, prefetchBatches*x.cfg.Batch.Events)
	pause := backoff{}
	for {
		if err := x.waitForStore(ctx, queue); err != nil {
			return err
		}
		err := x.cfg.Broker.Consume(ctx, rabbit.ConsumeConfig{Queue: queue, Prefetch: flow.startSession()},
			func(alive context.Context, consumer *rabbit.Session) error {
				defer x.progress[queue].requeue()
				acknowledged, err := x.runSession(alive, consumer, queue, take, flow)
				if stoppedByIndexer(ctx, alive) {
					flow.acknowledged = flow.acknowledged.merge(acknowledged, 0)
				}
				if ctx.Err() != nil {
					x.saveHandover(ctx, queue, flow.acknowledged)
				}
				return err
			})
		switch {
		case ctx.Err() != nil:
			return err
		case err == nil: // for another prefetch
			pause = backoff{}
			continue
		}
		x.metrics.requeued.Inc()
		x.writeFailure.record(time.Now(), err)
		x.cfg.Logger.Error("gave the messages at hand back to the queue", "queue", queue, "error", err)
		if err := pause.wait(ctx, 0); err != nil {
			return err
		}
	}
}

// inOrder says whether a session ended by the indexer, which ctx is of: then the
// broker has every acknowledgement before the channel closes.
func stoppedByIndexer(ctx, session context.Context) bool {
	return session.Err() == nil || errors.Is(context.Cause(session), context.Cause(ctx))
}

// awaitStore returns when the store answers.
func (x *Indexer) waitForStore(ctx context.Context, queue string) error {
	pause := backoff{}
	for {
		began := time.Now()
		err := x.raiseSequence(ctx)
		if err == nil {
			x.readFailure.clear()
			return nil
		}
		x.readFailure.record(began, err)
		if pause.attempt == 0 {
			x.cfg.Logger.Warn("waiting for the store; messages stay in their queue", "queue", queue, "error", err)
		}
		if err := pause.wait(ctx, 0); err != nil {
			return err
		}
	}
}

// raise puts the sequence above the highest that any indexer has stored, of any
// source: a replay is bounded by it.
func (x *Indexer) raiseSequence(ctx context.Context) error {
	highest, err := x.cfg.Store.HighestSequence(ctx)
	x.sequence.raise(highest)
	return err
}
