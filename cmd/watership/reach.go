package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
)

// reachPoll is how often a command looks whether the broker has answered.
const reachPoll = 10 * time.Millisecond

// reach is connect for commands that a person waits for: it fails as soon as
// the broker is known to be away or to refuse the login, instead of trying on.
func (s system) reach(ctx context.Context, name string) (*rabbit.Connection, error) {
	conn, err := rabbit.Open(rabbit.Config{URL: s.cfg.AMQP.URL.Reveal(), Name: "watership " + name})
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	for nothingYet := conn.Err(); ; {
		err := conn.Err()
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, errors.Join(context.Cause(ctx), conn.Close())
		case nothingYet == nil || err.Error() != nothingYet.Error():
			return nil, errors.Join(fmt.Errorf("connecting to %s: %w", s.cfg.AMQP.URL, err), conn.Close())
		}
		select {
		case <-time.After(reachPoll):
		case <-ctx.Done():
		}
	}
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
