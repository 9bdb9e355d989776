package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology"
)

// checkFormerQueues fails if setup has to run first, and restores queues that were deleted. It waits for
// the broker.
func (s *Server) checkFormerQueues(ctx context.Context) (err error) {
	conn, err := s.Open("checking", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.AwaitConnection(ctx, 0); err != nil {
		return ignoreEnd(ctx, err)
	}
	migration, err := newMigration(s.System, conn)
	if err != nil {
		return err
	}
	former, err := migration.FormerIndexes(ctx)
	if err == nil && len(former) == 0 {
		err = restore(ctx, s.System, migration, func(string) {}) // which logs
	}
	if err != nil || len(former) == 0 {
		return ignoreEnd(ctx, err)
	}
	return fmt.Errorf("queue %s is still there: tap.when_full, tap.limit, tap.queue_type, index.partitions or index.partition_key has changed since it was made; run `watership setup`, which moves on to queue %s",
		former[0].Name, s.Topology().Index())
}

func newMigration(sys *system.System, conn *rabbit.Connection) (topology.Migration, error) {
	management, err := sys.Management()
	return topology.Migration{Conn: conn, Management: management, VHost: sys.VHost(), Topology: sys.Topology()}, err
}

// recordDropped records a gap for each pair of former index queues that is full, before they are emptied.
func (s setup) recordDropped(ctx context.Context, conn *rabbit.Connection, former []topology.FormerIndex) error {
	for _, f := range former {
		if f.IndexLimit == 0 || !f.IsLate() {
			continue
		}
		publisher, err := s.Publisher(ctx)
		if err != nil {
			return err
		}
		queues, err := droppingQueues(s.System, f.Topology, conn, publisher)
		if err != nil {
			return err
		}
		full, err := queues.RecordFull(ctx)
		if err != nil {
			return err
		}
		if full {
			s.report("index", fmt.Sprintf("%s is full, so that the oldest copies were dropped: watership search 'action: dropped' finds the gap", f.Name))
		}
	}
	return nil
}

// drain indexes the messages of a former index queue.
func (s setup) drain(ctx context.Context, conn *rabbit.Connection, former topology.FormerIndex) error {
	source, err := s.SourceOf(ctx, conn)
	if err != nil {
		return err
	}
	cfg := indexerConfig(s.System, source)
	cfg.Topology = former.Topology
	cfg.Classic = s.Settings().Topology.QueueType == "classic" || former.ClassicIndex
	if cfg.Store, err = s.Store(ctx); err != nil {
		return err
	}
	consuming, err := s.Open("setup", true)
	if err != nil {
		return err
	}
	defer consuming.Close()
	publisher, err := s.Publisher(ctx)
	if err != nil {
		return err
	}
	cfg.Broker, cfg.Publisher = rabbit.Consumer{Connection: consuming}, rabbit.ExchangePublisher{Publisher: publisher}
	return indexer.New(cfg).Drain(ctx, former.Name, func(ctx context.Context) (int, error) {
		state, err := readyState(ctx, conn, former.Name)
		return state.Messages, err
	})
}

// readyState returns the number of messages and consumers of a queue, as AMQP says them.
func readyState(ctx context.Context, conn *rabbit.Connection, queue string) (rabbit.QueueState, error) {
	state, found, err := conn.QueueState(ctx, queue)
	if err == nil && !found {
		err = fmt.Errorf("there is no queue %q", queue)
	}
	return state, err
}
