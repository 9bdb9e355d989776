package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/rabbit"
)

// eachFormer calls do with each former queue.
func (s system) eachFormer(ctx context.Context, do func(conn *rabbit.Connection, old formerQueue) error) (err error) {
	conn, err := s.reach(ctx, "setup")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	former, err := s.formerQueues(ctx, conn)
	if err != nil {
		return err
	}
	for _, old := range former {
		if err := do(conn, old); err != nil {
			return err
		}
	}
	return nil
}

// refuseUsed fails while a former queue has a consumer.
func (s system) refuseUsed(ctx context.Context) error {
	return s.eachFormer(ctx, func(conn *rabbit.Connection, old formerQueue) error {
		_, err := unused(ctx, conn, old.name)
		return err
	})
}

// unbindFormer unbinds the former queues, after the queues with the present limit are
// bound. Messages that are published between the two steps are in both.
func (s system) unbindFormer(ctx context.Context) error {
	return s.eachFormer(ctx, func(conn *rabbit.Connection, old formerQueue) error {
		err := conn.Do(ctx, func(ch *amqp091.Channel) error { return ch.QueueUnbind(old.name, "", old.exchange, nil) })
		if err != nil {
			return fmt.Errorf("unbinding queue %s: %w", old.name, err)
		}
		return nil
	})
}

// retire indexes the messages of the former queues, and deletes the queues.
func (s system) retire(ctx context.Context, out io.Writer, store eventStore) error {
	return s.eachFormer(ctx, func(conn *rabbit.Connection, old formerQueue) error {
		if err := s.retireQueue(ctx, conn, store, old); err != nil {
			return err
		}
		if old.name == old.Index() {
			fmt.Fprintf(out, "index       %s is emptied and replaced by %s\n", old.name, s.topology.Index())
		}
		return nil
	})
}

func (s system) retireQueue(ctx context.Context, conn *rabbit.Connection, store eventStore, old formerQueue) error {
	for {
		messages, err := unused(ctx, conn, old.name)
		switch {
		case err != nil:
			return err
		case messages == 0:
			return s.deleteEmpty(ctx, conn, old.name)
		}
		if err := s.empty(ctx, conn, store, old); err != nil {
			return err
		}
	}
}

const unusedPatience = 5 * time.Second // the broker's count of consumers lags

// unused returns the number of messages in a queue, and fails if it still has a
// consumer.
func unused(ctx context.Context, conn *rabbit.Connection, queue string) (messages int, err error) {
	for since := time.Now(); ; {
		there, err := look(ctx, conn, queue)
		switch {
		case err != nil:
			return 0, fmt.Errorf("looking at queue %s: %w", queue, err)
		case there.Consumers == 0:
			return there.Messages, nil
		case time.Since(since) > unusedPatience:
			return 0, fmt.Errorf("queue %s still has a consumer: stop the serve that has the former tap.when_full or tap.limit, and run setup again", queue)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// empty indexes the messages of a queue.
func (s system) empty(ctx context.Context, conn *rabbit.Connection, store eventStore, old formerQueue) error {
	source, err := s.source(ctx, conn)
	if err != nil {
		return err
	}
	s.topology = old.Topology
	cfg := s.indexer(source)
	consuming, err := s.connect("setup", true)
	if err != nil {
		return err
	}
	defer consuming.Close()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer publisher.Close()
	cfg.Broker, cfg.Publisher, cfg.Store = rabbit.Consumer{Connection: consuming}, rabbit.ExchangePublisher{Publisher: publisher}, store
	return indexer.New(cfg).Drain(ctx, old.name, func(ctx context.Context) (int, error) {
		there, err := look(ctx, conn, old.name)
		return there.Messages, err
	})
}

// deleteEmpty deletes an empty queue: no message can have come in since it was
// unbound.
func (s system) deleteEmpty(ctx context.Context, conn *rabbit.Connection, queue string) error {
	err := conn.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting queue %s, which is empty: %w", queue, err)
	}
	return nil
}
