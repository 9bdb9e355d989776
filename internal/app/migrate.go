package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
)

// checkFormerQueues fails if setup has to run first. It waits for the broker.
func (a *App) checkFormerQueues(ctx context.Context) (err error) {
	conn, err := a.open("checking", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.AwaitConnection(ctx, 0); err != nil {
		return ignoreEnd(ctx, err)
	}
	migration, err := a.migration(conn)
	if err != nil {
		return err
	}
	former, err := migration.FormerIndexes(ctx)
	if err != nil || len(former) == 0 {
		return ignoreEnd(ctx, err)
	}
	return fmt.Errorf("queue %s is still there: tap.when_full, tap.limit or tap.queue_type has changed since it was made; run `watership setup`, which moves on to queue %s",
		former[0].Name, a.topology.Index())
}

func (a *App) migration(conn *rabbit.Connection) (topology.Migration, error) {
	management, err := a.Management()
	return topology.Migration{Conn: conn, Management: management, VHost: a.vhost, Topology: a.topology}, err
}

// drain indexes the messages of a former index queue.
func (a *App) drain(ctx context.Context, conn *rabbit.Connection, former topology.FormerIndex) error {
	source, err := a.source(ctx, conn)
	if err != nil {
		return err
	}
	cfg := a.indexerConfig(source)
	cfg.Decoder.Topology = former.Topology
	cfg.Classic = a.settings.Topology.QueueType == "classic" || former.ClassicIndex
	if cfg.Store, err = a.Store(ctx); err != nil {
		return err
	}
	consuming, err := a.open("setup", true)
	if err != nil {
		return err
	}
	defer consuming.Close()
	publisher, err := a.Publisher(ctx)
	if err != nil {
		return err
	}
	cfg.Broker, cfg.Publisher = rabbit.Consumer{Connection: consuming}, rabbit.ExchangePublisher{Publisher: publisher}
	return indexer.New(cfg).Drain(ctx, former.Name, func(ctx context.Context) (int, error) {
		state, err := queueState(ctx, conn, former.Name)
		return state.Messages, err
	})
}
