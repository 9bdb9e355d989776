package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/server/overflow"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/schemas"
)

// indexRole is the role that writes to the store, which other processes may have.
type indexRole struct {
	*system.System
	settings   config.Config     // of the start
	events     system.EventStore // nil without the role
	registry   *prometheus.Registry
	declared   <-chan struct{}          // closed when the topology is declared
	running    atomic.Pointer[indexing] // nil until it begins
	started    time.Time
	standstill standstill
}

// indexing is a running indexer and the connections that it uses.
type indexing struct {
	*indexer.Indexer
	connections []*rabbit.Connection
}

// watchOverflow records dropped copies until ctx ends, if copies may be dropped at all. It calls
// looked when it knows whether copies were dropped before the queues are consumed.
func (s *indexRole) watchOverflow(ctx context.Context, looked func()) (err error) {
	defer looked()
	if s.Topology().IndexLimit == 0 {
		return nil
	}
	conn, err := s.Open("recording gaps", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	queues, err := droppingQueues(s.System, s.Topology(), conn, publisher)
	if err != nil {
		return err
	}
	watcher := overflow.Watcher{Queues: queues, Logger: s.Logger(), Lag: s.lag, Registerer: s.registry}
	return watcher.Run(ctx, s.declared, looked)
}

// droppingQueues returns the queues of copies of a topology.
func droppingQueues(sys *system.System, of schemas.Topology, conn *rabbit.Connection, publisher *rabbit.Publisher) (overflow.Queues, error) {
	management, err := sys.Management()
	return overflow.Queues{
		Topology: of, Events: sys.Topology().Events(), VHost: sys.VHost(),
		Connection: conn, Publisher: publisher, Management: management, Sign: sys.Sign,
	}, err
}

// run runs the indexer once the topology is declared and the queues were looked at.
func (s *indexRole) run(ctx context.Context, looked <-chan struct{}) (err error) {
	for _, ready := range []<-chan struct{}{s.declared, looked} {
		select {
		case <-ready:
		case <-ctx.Done():
			return nil
		}
	}
	if err := s.installTemplates(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	consuming, err := s.Open("indexing", true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consuming.Close()) }()
	sending, err := s.Open("setting aside", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sending.Close()) }()
	publisher := rabbit.NewPublisher(sending, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	restoring, err := s.Open("restoring", false) // RabbitMQ holds up publishing connections when it is short of memory
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restoring.Close()) }()
	source, err := s.SourceOf(ctx, consuming)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	cfg := indexerConfig(s.System, source)
	cfg.Broker = rabbit.Consumer{
		Connection: consuming, Tag: role.NewConsumer(role.Index, "").Tag(), Setup: reconciler(s.System, restoring, publisher).PrepareQueue,
	}
	cfg.Publisher, cfg.Store, cfg.Registerer = rabbit.ExchangePublisher{Publisher: publisher}, s.events, s.registry
	x := indexer.New(cfg)
	s.running.Store(&indexing{x, []*rabbit.Connection{consuming, sending, restoring}})
	return x.Run(ctx)
}

func indexerConfig(sys *system.System, source string) indexer.Config {
	settings := sys.Settings()
	return indexer.Config{
		Classic: settings.Topology.QueueType == "classic" || sys.Topology().ClassicIndex,
		Logger:  sys.StoreLogger(), Format: sys.DocumentFormat(), Memory: settings.Index.Memory, Retention: sys.Retention(),
		Source: source, VHost: sys.VHost(), Topology: sys.Topology(), StateKeys: sys.Secrets().StateKeys,
		Fingerprints: settings.Fingerprint, TimeHeaders: settings.Index.TimeHeaders, Streams: sys.Streams(),
		Batch: indexer.Batch{
			Events: settings.Index.Batch.Events, Bytes: settings.Index.Batch.Bytes, Wait: settings.Index.Batch.Wait,
		},
	}
}

const installInterval = 2 * time.Second

// installTemplates waits for a store that is unavailable.
func (s *indexRole) installTemplates(ctx context.Context) error {
	for warned := false; ; warned = true {
		err := s.events.Install(ctx)
		var failed *eventstore.Error
		if err == nil || !errors.As(err, &failed) || failed.Kind == eventstore.BadRequest {
			return ignoreEnd(ctx, err)
		}
		if !warned {
			s.StoreLogger().Warn("waiting for the store; messages stay in their queues", "store", s.settings.Store.URL, "error", err)
		}
		if backoff.Sleep(ctx, installInterval) != nil {
			return nil
		}
	}
}

const retainInterval = time.Minute

// applyRetention removes events older than the retention until ctx ends, or notes which ones the store
// has removed by itself.
func (s *indexRole) applyRetention(ctx context.Context) error {
	ticker := time.NewTicker(retainInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if _, err := s.events.Retain(ctx); err != nil && ctx.Err() == nil {
			s.Logger().Warn("removing old events failed; trying again", "error", err)
		}
	}
}

// stalled returns an error that only a new process can end. An unavailable RabbitMQ or
// store causes no such error.
func (s *indexRole) stalled(context.Context) error {
	if running := s.running.Load(); running != nil {
		return running.Stalled()
	}
	return nil
}

// ready returns an error unless the store takes documents, and the indexer stores them.
func (s *indexRole) ready(ctx context.Context) error {
	if err := s.events.Check(ctx); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := doctor.IndexHealth(ctx, s.events); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	running := s.running.Load()
	if running == nil {
		return errors.New("the indexer does not consume yet")
	}
	if err := running.StoreError(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return s.progress(ctx, running)
}

// progress returns an error if messages wait and no process indexes them for long.
func (s *indexRole) progress(ctx context.Context, running *indexing) error {
	conn, err := s.Connection()
	if err != nil {
		return err
	}
	waiting, of := 0, ""
	for _, queue := range s.Topology().Indexed() {
		state, err := readyState(ctx, conn, queue)
		if err != nil {
			return err
		}
		if state.Messages > waiting {
			waiting, of = state.Messages, queue
		}
	}
	now := time.Now()
	since := s.standstill.look(now, running.CompleteUpTo(), waiting > 0)
	if now.Sub(since) < standstillAfter {
		return nil
	}
	return fmt.Errorf("%d messages wait in queue %s, and no process has indexed any for %s", waiting, of, now.Sub(since).Round(time.Second))
}

// lag returns the indexer's lag, or the time since the start if the indexer could
// not begin yet.
func (s *indexRole) lag(queue string, waiting int) time.Duration {
	if running := s.running.Load(); running != nil {
		return running.Lag(queue, waiting)
	}
	if waiting == 0 {
		return 0
	}
	return time.Since(s.started)
}
