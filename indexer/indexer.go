// Package indexer consumes events from RabbitMQ and writes them to a store in batches.
// It acknowledges a message only after the store has confirmed its document. It drops
// no message, and pauses before it requeues messages. This is a whole program:
//
//	func main() {
//		ctx := context.Background()
//		store, err := sqlite.Open(ctx, sqlite.Config{Path: "events.db"})
//		if err == nil {
//			err = store.Install(ctx)
//		}
//		if err == nil {
//			err = indexer.New(indexer.Config{Connection: rabbitmq.Connection{URL: "amqp://localhost"}, Store: store}).Run(ctx)
//		}
//		log.Fatal(err)
//	}
//
// The queues must exist: a pipeline declares them, and so does `watership setup`. Until then Run waits, and logs that.
//
// Run one indexer for each RabbitMQ: each queue has a single active consumer, so that a
// second one only waits, or has some of the queues that share the tap copies. To read events, use a store and no indexer.
package indexer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// Store is the database that the indexer writes to.
type Store interface {
	// Create writes documents and returns a result for each, in order. Its error is a
	// *eventstore.Error: any of the documents may or may not be written.
	Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error)

	// Find looks up documents by id in all backing indices.
	Find(ctx context.Context, ids []string) (map[string]eventstore.DocumentID, error)

	// Sequences returns event.sequence of documents, including the latest writes.
	Sequences(ctx context.Context, documents []eventstore.DocumentID) (map[eventstore.DocumentID]int64, error)

	// HighestSequence returns the highest event.sequence, 0 if the store is empty.
	HighestSequence(ctx context.Context) (int64, error)

	// HighestSequenceOf returns the highest event.sequence of a source, 0 if it has none.
	HighestSequenceOf(ctx context.Context, source string) (int64, error)

	// KnownJobs reports which ids belong to stored replay jobs, including the latest
	// writes.
	KnownJobs(ctx context.Context, ids []string) (map[string]bool, error)

	// Handover returns the document that SaveHandover stored under a name, nil if
	// none exists.
	Handover(ctx context.Context, name string) ([]byte, error)

	// SaveHandover stores a JSON document under a name and replaces the previous one.
	SaveHandover(ctx context.Context, name string, document []byte) error

	eventstore.RecordStore // keeps the watermarks
}

// Broker is a connection to RabbitMQ.
type Broker interface {
	// Do calls f with a channel, which it closes after f has returned.
	Do(ctx context.Context, f func(*amqp.Channel) error) error

	// Consume consumes a queue on its own channel, with manual acknowledgements. It
	// calls f with a context derived from ctx and the deliveries, and closes the channel
	// after f has returned. The deliveries close when the channel is lost; an
	// implementation can then call f again with a new channel, and has to cancel the
	// context of the former f. Consume returns the error of f, or an error of
	// RabbitMQ: the indexer then calls it again after a pause.
	Consume(ctx context.Context, queue string, prefetch int,
		f func(ctx context.Context, deliveries <-chan amqp.Delivery) error) error

	// ServerVersion returns the version of RabbitMQ, such as 4.0.5.
	ServerVersion(ctx context.Context) (string, error)
}

// Publisher publishes messages that are too large for the store to the queue of
// unstorable messages.
type Publisher interface {
	// Publish returns nil after RabbitMQ has confirmed the message. It returns an error
	// if the message reaches no queue.
	Publish(ctx context.Context, exchange, routingKey string, m amqp.Publishing) error
}

// Config configures an Indexer. Store is required, and URL or Broker.
type Config struct {
	rabbitmq.Connection // which Run opens

	// Broker and Publisher replace Connection for a program that has connections already.
	Broker    Broker
	Publisher Publisher

	Store Store

	// Source and VHost are the names of the RabbitMQ system and of the virtual host in the events. "": the name of the
	// cluster, and the virtual host of URL.
	Source, VHost string

	Topology schemas.Topology // names of Watership's exchanges and queues; zero: those with the prefix watership

	// StateKeys verify the events and replays that other processes publish, as in pipeline.Config.
	StateKeys schemas.StateKeys

	// Fingerprints have the settings of every process of Watership in the virtual host.
	Fingerprints schemas.Fingerprints

	// Streams finds the stream of a message, as streamid.New returns it. All processes need the same. Nil: messages have
	// none.
	Streams func(schemas.Envelope) schemas.MessageStream

	// TimeHeaders are the headers that may have the time at which a message was
	// published, for messages whose timestamp property has none. The first that has a
	// time counts.
	TimeHeaders []string

	// Classic is whether the queues of tap copies are classic ones, which deliver in the
	// order of publishing. Quorum queues deliver by priority since RabbitMQ 4.0: events of
	// messages that have one are marked, see schemas.Event.
	Classic bool

	Format schemas.DocumentFormat
	Batch  Batch

	// Memory limits the memory of messages, in bytes: one half for the unacknowledged
	// messages of each queue, with their documents; several queues of tap copies share that.
	// Of the three kinds of queues at most two are busy for long. A single message may exceed the limit. So may messages that
	// suddenly grow, until the indexer has adapted the prefetch. Zero: 64 MiB.
	Memory int

	// RequeueAfter is the time for which the store may fail before unacknowledged
	// messages are requeued, so that none exceeds RabbitMQ's acknowledgement time-out of
	// 30 minutes
	// (https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout).
	// Zero: 3 minutes.
	RequeueAfter time.Duration

	// Retention is the time after which the store deletes documents. Messages in the queue
	// of unstorable messages are deleted after the same time. Documents of other
	// streams, or with 0, are not deleted.
	Retention map[schemas.Stream]time.Duration

	Logger     *slog.Logger          // nil: slog.Default
	Registerer prometheus.Registerer // for one indexer only; nil: no metrics
	Now        func() time.Time      // the clock of event.sequence; nil: time.Now
}

func (c Config) decoder() wire.Decoder {
	return wire.Decoder{
		Source: c.Source, VHost: c.VHost, Topology: c.Topology, Keys: c.StateKeys,
		Fingerprints: c.Fingerprints, Streams: c.Streams, TimeHeaders: c.TimeHeaders,
	}
}

// Batch limits a bulk request, which is sent when it reaches the first limit. The
// indexer starts with smaller requests. It makes them larger while the time per document
// does not grow, and smaller when the store is overloaded.
type Batch struct {
	Events int           // zero: 1,000
	Bytes  int           // of all documents; zero: 5 MiB
	Wait   time.Duration // after the first event; zero: 500 ms
}

func (c Config) withDefaults() Config {
	c.Batch.Events = orDefault(c.Batch.Events, eventstore.DefaultBatchEvents)
	c.Batch.Bytes = orDefault(c.Batch.Bytes, eventstore.DefaultBatchBytes)
	c.Batch.Wait = orDefault(c.Batch.Wait, eventstore.DefaultBatchWait)
	c.Memory = orDefault(c.Memory, 64<<20)
	c.RequeueAfter = orDefault(c.RequeueAfter, 3*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value <= 0 {
		return fallback
	}
	return value
}

// Indexer writes the events of the queues to the store.
type Indexer struct {
	cfg            Config
	sequence       clock
	writeMemory    *semaphore.Weighted // bytes of documents
	documentBlocks sync.Pool           // of *documentBlock
	sizer          *batchSizer
	metrics        metrics
	progress       map[string]*queueProgress // by queue
	jobs           jobCache
	watermarks     *watermarks
	decoder        *eventDecoder

	readFailure, writeFailure storeFailure // of the store
	consecutiveRefusals       atomic.Int64 // documents, since one was accepted
}

// New returns an indexer. Run connects.
func New(cfg Config) *Indexer {
	cfg = cfg.withDefaults()
	progress, now := map[string]*queueProgress{}, time.Now()
	for _, queue := range cfg.Topology.Indexed() {
		progress[queue] = &queueProgress{indexedUntil: now}
	}
	x := &Indexer{
		cfg:         cfg,
		sequence:    clock{now: cfg.Now},
		writeMemory: semaphore.NewWeighted(int64(cfg.Memory / 2)),
		sizer:       newBatchSizer(cfg.Batch),
		metrics:     newMetrics(cfg.Registerer),
		progress:    progress,
	}
	x.watermarks = newWatermarks(x)
	x.decoder = &eventDecoder{cfg: &x.cfg, sequence: &x.sequence, mismatches: x.metrics.mismatches}
	return x
}

// Run indexes until ctx ends. Then it writes and acknowledges the messages that it has
// collected, for at most some seconds, and not at all if the store fails. The other
// messages stay in their queues. It returns nil then.
func (x *Indexer) Run(ctx context.Context) error {
	if x.cfg.Store == nil {
		return errors.New("indexing: the configuration has no Store")
	}
	closing, err := x.connect(ctx)
	if err != nil {
		return ignoreEnd(ctx, fmt.Errorf("indexing: %w", err))
	}
	return errors.Join(x.consumeAll(ctx), closing())
}

// ignoreEnd drops an error after the end of ctx: to be stopped is no failure.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (x *Indexer) consumeAll(ctx context.Context) error {
	queues := x.cfg.Topology.Indexed()
	defer x.watermarks.start(ctx)()
	var running sync.WaitGroup
	failures := make(chan error, len(queues))
	for _, queue := range queues {
		running.Go(func() { failures <- x.consume(ctx, queue) })
	}
	running.Go(func() { expiry{x.cfg}.removePeriodically(ctx) })
	running.Wait()
	close(failures)
	for err := range failures {
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("indexing: %w", err)
		}
	}
	return nil
}

// consume indexes one queue. It does not consume while the store is unavailable, so that
// the messages stay in the queue.
func (x *Indexer) consume(ctx context.Context, queue string) error {
	add := x.decoder.addTapped
	if queue == x.cfg.Topology.Log() {
		add = x.decoder.addLifecycle
	}
	state := &queueState{tuner: newPrefetchTuner(x.memoryOf(queue), prefetchBatches*x.cfg.Batch.Events)}
	failures := 0
	for {
		if err := x.waitForStore(ctx, queue); err != nil {
			return err
		}
		prefetch := state.tuner.startSession()
		err := x.cfg.Broker.Consume(ctx, queue, prefetch,
			func(session context.Context, deliveries <-chan amqp.Delivery) error {
				if state.tuner.prefetch != prefetch { // changed in a session that was lost before its end
					return nil
				}
				defer x.progress[queue].requeue()
				if err := x.decoder.findOrder(session); err != nil {
					return err
				}
				x.watermarks.findBroker(session)
				acknowledged, err := x.runSession(session, deliveries, queue, add, state)
				if stoppedByIndexer(ctx, session) {
					state.acknowledged = state.acknowledged.merge(acknowledged, 0)
				}
				if ctx.Err() != nil && x.StoreError() == nil {
					saveHandover(ctx, x.cfg, queue, state.acknowledged)
				}
				return err
			})
		switch {
		case ctx.Err() != nil:
			return err
		case err == nil: // the prefetch changes
			failures = 0
			continue
		}
		x.metrics.requeued.Inc()
		if !errors.Is(err, errClaimLost) {
			x.writeFailure.record(time.Now(), err)
		}
		x.cfg.Logger.Error("requeued the unacknowledged messages", "queue", queue, "error", err)
		failures++
		if err := pause(ctx, failures, 0); err != nil {
			return err
		}
		x.consecutiveRefusals.Store(0)
	}
}

// memoryOf returns the bound of the unacknowledged messages of a queue, in bytes. The queues that share the
// tap copies share the bound of one.
func (x *Indexer) memoryOf(queue string) int {
	if _, sharing := x.cfg.Topology.Partitions(); slices.Contains(sharing, queue) {
		return x.cfg.Memory / 2 / len(sharing)
	}
	return x.cfg.Memory / 2
}

// stoppedByIndexer reports whether the indexer, to which ctx belongs, ended the session.
// Then the broker receives every acknowledgement before the channel closes.
func stoppedByIndexer(ctx, session context.Context) bool {
	return session.Err() == nil || errors.Is(context.Cause(session), context.Cause(ctx))
}

// waitForStore returns when the store answers.
func (x *Indexer) waitForStore(ctx context.Context, queue string) error {
	for failures := 1; ; failures++ {
		began := time.Now()
		err := x.raiseSequence(ctx)
		if err == nil {
			x.readFailure.clear()
			return nil
		}
		x.readFailure.record(began, err)
		if failures == 1 {
			x.cfg.Logger.Warn("waiting for the store; messages stay in their queue", "queue", queue, "error", err)
		}
		if err := pause(ctx, failures, 0); err != nil {
			return err
		}
	}
}

// raiseSequence lets new sequences be above all stored ones, of any source: a replay uses
// the highest sequence as its upper bound.
func (x *Indexer) raiseSequence(ctx context.Context) error {
	highest, err := x.cfg.Store.HighestSequence(ctx)
	x.sequence.raise(highest)
	return err
}
