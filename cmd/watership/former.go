package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// formerIndexes are the topologies whose queue of tap copies is still bound to
// the tap, under another limit than is configured now. Without the management API
// only the unlimited one can be found.
func (s system) formerIndexes(ctx context.Context, conn *rabbit.Connection) ([]schemas.Topology, error) {
	management, err := s.managementAPI()
	if err != nil {
		return nil, err
	}
	bindings, err := management.Bindings(ctx, s.vhost, s.topology.Tap())
	switch {
	case errors.Is(err, rabbit.ErrNotFound):
		return nil, nil
	case err != nil:
		return s.formerUnlimited(ctx, conn)
	}
	var former []schemas.Topology
	for _, b := range bindings {
		if topology, is := s.topology.FormerIndex(b.Destination); is && b.DestinationType == "queue" {
			former = append(former, topology)
		}
	}
	return former, nil
}

func (s system) formerUnlimited(ctx context.Context, conn *rabbit.Connection) ([]schemas.Topology, error) {
	former := schemas.Topology{Prefix: s.topology.Prefix}
	if former == s.topology {
		return nil, nil
	}
	_, err := look(ctx, conn, former.Index())
	var broker *amqp091.Error
	switch {
	case errors.As(err, &broker) && broker.Code == amqp091.NotFound:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for queue %s: %w", former.Index(), err)
	}
	return []schemas.Topology{former}, nil
}

// look is what AMQP tells of a queue.
func look(ctx context.Context, conn *rabbit.Connection, queue string) (there amqp091.Queue, err error) {
	err = conn.Do(ctx, func(ch *amqp091.Channel) error {
		there, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	return there, err
}

// refuseFormer fails where setup has to run first. It waits for the broker.
func (s system) refuseFormer(ctx context.Context) (err error) {
	conn, err := s.connect("checking", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Life(ctx, 0); err != nil {
		return ignoreEnd(ctx, err)
	}
	former, err := s.formerIndexes(ctx, conn)
	if err != nil || len(former) == 0 {
		return ignoreEnd(ctx, err)
	}
	return fmt.Errorf("queue %s is still there: tap.when_full or tap.limit has changed since it was made; run `watership setup`, which moves on to queue %s",
		former[0].Index(), s.topology.Index())
}

// retire replaces the queues of tap copies that had another limit, once those
// that have the limit of now are bound: it unbinds them, indexes what they hold,
// and deletes them.
func (s system) retire(ctx context.Context, out io.Writer, store eventStore) (err error) {
	conn, err := s.reach(ctx, "setup")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	former, err := s.formerIndexes(ctx, conn)
	if err != nil {
		return err
	}
	for _, old := range former {
		// What expires in the first while it is emptied goes to the second.
		for _, q := range []struct{ queue, exchange string }{{old.Index(), old.Tap()}, {old.IndexLate(), old.Late()}} {
			if err := s.retireQueue(ctx, conn, store, old, q.queue, q.exchange); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "index       %s is emptied and replaced by %s\n", old.Index(), s.topology.Index())
	}
	return nil
}

func (s system) retireQueue(ctx context.Context, conn *rabbit.Connection, store eventStore, old schemas.Topology, queue, exchange string) error {
	unbind := func(ch *amqp091.Channel) error { return ch.QueueUnbind(queue, "", exchange, nil) }
	if err := conn.Do(ctx, unbind); err != nil {
		return fmt.Errorf("unbinding queue %s: %w", queue, err)
	}
	for {
		messages, err := unused(ctx, conn, queue)
		switch {
		case err != nil:
			return err
		case messages == 0:
			return s.deleteEmpty(ctx, conn, queue)
		}
		if err := s.empty(ctx, conn, store, old, queue); err != nil {
			return err
		}
	}
}

const unusedPatience = 5 * time.Second // the broker counts consumers behind time

// unused says how many messages a queue holds that nobody consumes.
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

// empty indexes what a queue holds.
func (s system) empty(ctx context.Context, conn *rabbit.Connection, store eventStore, old schemas.Topology, queue string) error {
	source, err := s.source(ctx, conn)
	if err != nil {
		return err
	}
	s.topology = old
	cfg := s.indexer(source)
	consuming, err := s.connect("setup", true)
	if err != nil {
		return err
	}
	defer consuming.Close()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer publisher.Close()
	cfg.Broker, cfg.Publisher, cfg.Store = consuming, publisher, store
	return indexer.New(cfg).Empty(ctx, queue, func(ctx context.Context) (int, error) {
		there, err := look(ctx, conn, queue)
		return there.Messages, err
	})
}

// deleteEmpty: nobody can have put anything in since it was unbound.
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
