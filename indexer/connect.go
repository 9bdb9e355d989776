package indexer

import (
	"context"
	"errors"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology/role"
)

// connect opens connections to URL, which closing closes, unless the configuration has a
// Broker. They reconnect. It waits for RabbitMQ if the configuration has no source.
func (x *Indexer) connect(ctx context.Context) (closing func() error, err error) {
	if x.cfg.Broker != nil {
		return func() error { return nil }, nil
	}
	cfg := rabbit.At(x.cfg.Connection, "indexing", x.cfg.Logger)
	sending, err := rabbit.Open(cfg)
	if err != nil {
		return nil, err
	}
	cfg.LargeFrames = true
	consuming, err := rabbit.Open(cfg)
	if err != nil {
		return nil, errors.Join(err, sending.Close())
	}
	publisher := rabbit.NewPublisher(sending, rabbit.PublisherConfig{})
	closing = func() error { return errors.Join(publisher.Close(), sending.Close(), consuming.Close()) }
	if err := x.nameSource(ctx, consuming); err != nil {
		return nil, errors.Join(err, closing())
	}
	x.cfg.Broker, x.cfg.Publisher = rabbit.Consumer{Connection: consuming, Tag: role.NewConsumer(role.Index, "").Tag()}, rabbit.ExchangePublisher{Publisher: publisher}
	return closing, nil
}

// nameSource names the source and the virtual host of events unless they are configured.
func (x *Indexer) nameSource(ctx context.Context, conn *rabbit.Connection) error {
	cfg := &x.cfg
	if cfg.VHost == "" {
		cfg.VHost = conn.VHost()
	}
	if cfg.Source != "" {
		return nil
	}
	var err error
	cfg.Source, err = conn.Source(ctx)
	return err
}
