package pipeline

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/rabbitmq"
)

// connections are the connections of a pipeline, and its publishers on them.
type connections struct {
	server    rabbitmq.Connection
	logger    *slog.Logger
	consuming *rabbit.Connection
	sending   *rabbit.Connection // events, delays and poison
	declaring *rabbit.Connection // RabbitMQ closes it when it cannot declare something in time
	returning *rabbit.Connection // messages to the queues of services, and parked copies
	outgoing  *rabbit.Connection // outgoing messages of handlers

	all        []*rabbit.Connection // of these
	publishers []*rabbit.Publisher
}

// maxGivenUp is the number of unconfirmed messages after which their channel is given
// up: RabbitMQ may not answer on it for long.
const maxGivenUp = 8

// prepare makes all connections, which start starts.
func (c *connections) prepare() (err error) {
	for _, one := range []struct {
		connection **rabbit.Connection
		purpose    string
	}{
		{&c.consuming, "consuming"},
		{&c.declaring, "declaring"},
		{&c.sending, "publishing"},
		{&c.returning, "returning"},
		{&c.outgoing, "outgoing"},
	} {
		cfg := rabbit.At(c.server, one.purpose, c.logger)
		cfg.LargeFrames = one.connection == &c.consuming
		if *one.connection, err = rabbit.New(cfg); err != nil {
			return err
		}
		c.all = append(c.all, *one.connection)
	}
	return nil
}

// start starts connecting.
func (c *connections) start() {
	for _, connection := range c.all {
		rabbit.Start(connection)
	}
}

// publisherOn returns a publisher that close closes.
func (c *connections) publisherOn(connection *rabbit.Connection) *rabbit.Publisher {
	publisher := rabbit.NewPublisher(connection, rabbit.PublisherConfig{MaxGivenUp: maxGivenUp})
	c.publishers = append(c.publishers, publisher)
	return publisher
}

// dedicatedPublisher returns a publisher with its own connection, and the function that closes both.
func (c *connections) dedicatedPublisher() (by *rabbit.Publisher, end func(), err error) {
	connection, err := rabbit.Open(rabbit.At(c.server, "probing", c.logger))
	if err != nil {
		return nil, nil, err
	}
	by = rabbit.NewPublisher(connection, rabbit.PublisherConfig{Window: 1, StopTimeout: time.Millisecond})
	return by, func() {
		_ = by.Close() // its unconfirmed messages have been reported
		_ = connection.Close()
	}, nil
}

// frameMax returns the largest frame of the connection for Watership's messages.
func (c *connections) frameMax() wire.FrameMax { return wire.FrameMax(c.sending.FrameMax()) }

// problem returns the reason why no messages are delivered or published now.
func (c *connections) problem() error {
	return cmp.Or(c.consuming.Err(), c.sending.Err(), c.returning.Err(), c.outgoing.Err(), c.declaring.Err())
}

// close closes the publishers and then the connections.
func (c *connections) close() error {
	publishers := closeAll(c.publishers)
	// At once, since a consumer that begins waits for the connection that declares its queue.
	return errors.Join(publishers, closeAll(c.all))
}

// closeAll closes all of a list at the same time.
func closeAll[T io.Closer](all []T) error {
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, one := range all {
		closing.Go(func() { errs[i] = one.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}
