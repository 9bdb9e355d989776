package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// reachPoll is how often reach checks whether the broker has answered.
const reachPoll = 10 * time.Millisecond

// reach connects for commands that a user waits for: it fails as soon as the broker is
// known to be away or to refuse the login, instead of retrying.
func (s system) reach(ctx context.Context, name string) (*rabbit.Connection, error) {
	if s.away != nil {
		return nil, s.away
	}
	conn, err := rabbit.Open(s.broker(name))
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	first := conn.Err()
	for err := first; ; err = conn.Err() {
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, errors.Join(context.Cause(ctx), conn.Close())
		case failed(err) || err.Error() != first.Error():
			return nil, errors.Join(fmt.Errorf("connecting to %s: %w", s.cfg.AMQP.URL, err), conn.Close())
		}
		select {
		case <-time.After(reachPoll):
		case <-ctx.Done():
		}
	}
}

// failed reports whether a connection attempt has failed: its error has a cause.
// Before that, the error only says that there is no connection yet.
func failed(err error) bool {
	var network *net.OpError
	var broker *amqp091.Error
	return errors.As(err, &network) || errors.As(err, &broker) || errors.Unwrap(err) != nil
}

// publishing calls do with a publisher on a connection of its own.
func (s system) publishing(ctx context.Context, name string, do func(*rabbit.Publisher) error) (err error) {
	conn, err := s.reach(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	return do(publisher)
}
