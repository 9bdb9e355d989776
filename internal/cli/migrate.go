package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/topology"
)

// look returns the state of a queue as AMQP has it.
func look(ctx context.Context, conn *rabbit.Connection, queue string) (there amqp091.Queue, err error) {
	err = conn.Do(ctx, func(ch *amqp091.Channel) error {
		there, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	return there, err
}

// refuseFormer fails if setup has to run first. It waits for the broker.
func (s system) refuseFormer(ctx context.Context) (err error) {
	conn, err := s.connect("checking", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Life(ctx, 0); err != nil {
		return ignoreEnd(ctx, err)
	}
	migration, err := s.migration(conn)
	if err != nil {
		return err
	}
	former, err := migration.FormerIndexes(ctx)
	if err != nil || len(former) == 0 {
		return ignoreEnd(ctx, err)
	}
	return fmt.Errorf("queue %s is still there: tap.when_full or tap.limit has changed since it was made; run `watership setup`, which moves on to queue %s",
		former[0].Name, s.topology.Index())
}

func (s system) migration(conn *rabbit.Connection) (topology.Migration, error) {
	management, err := s.managementAPI()
	return topology.Migration{Conn: conn, Management: management, VHost: s.vhost, Topology: s.topology}, err
}

// migrate calls do with a migration on a connection of its own.
func (s system) migrate(ctx context.Context, do func(topology.Migration) error) (err error) {
	conn, err := s.reach(ctx, "setup")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	migration, err := s.migration(conn)
	if err != nil {
		return err
	}
	return do(migration)
}

// drainFormer indexes the messages of the former index queues, and deletes the queues.
func (s system) drainFormer(ctx context.Context, out io.Writer, store eventStore) error {
	return s.migrate(ctx, func(m topology.Migration) error {
		return m.Drain(ctx, func(ctx context.Context, former topology.FormerIndex) error {
			return s.drain(ctx, m.Conn, store, former)
		}, func(former topology.FormerIndex) {
			if former.Name == former.Index() {
				fmt.Fprintf(out, "index       %s is emptied and replaced by %s\n", former.Name, s.topology.Index())
			}
		})
	})
}

// drain indexes the messages of a former index queue.
func (s system) drain(ctx context.Context, conn *rabbit.Connection, store eventStore, former topology.FormerIndex) error {
	source, err := s.source(ctx, conn)
	if err != nil {
		return err
	}
	s.topology = former.Topology
	cfg := s.indexer(source)
	consuming, err := s.connect("setup", true)
	if err != nil {
		return err
	}
	defer consuming.Close()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer publisher.Close()
	cfg.Broker, cfg.Publisher, cfg.Store = rabbit.Consumer{Connection: consuming}, rabbit.ExchangePublisher{Publisher: publisher}, store
	return indexer.New(cfg).Drain(ctx, former.Name, func(ctx context.Context) (int, error) {
		there, err := look(ctx, conn, former.Name)
		return there.Messages, err
	})
}

// deleteFormerDelays deletes the empty delay queues of a former release.
func (s system) deleteFormerDelays(ctx context.Context, out io.Writer) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.migrate(ctx, func(m topology.Migration) error {
		delays, err := m.DeleteFormerDelays(ctx)
		for _, delay := range delays {
			if delay.Messages > 0 {
				fmt.Fprintf(out, "delays      %s holds %s of a former release: run setup again once it is empty\n",
					delay.Name, terminal.Plural(int(delay.Messages), "message"))
			} else {
				fmt.Fprintf(out, "delays      %s of a former release is empty, and deleted\n", delay.Name)
			}
		}
		return err
	})
}
