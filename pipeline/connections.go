package pipeline

import (
	"cmp"
	"errors"
	"io"
	"sync"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// connections are the connections of a pipeline, and its publishers on them.
type connections struct {
	server    rabbit.Config // without a name
	consuming *transport.Connection
	sending   *rabbit.Connection // events, delays and poison
	declaring *rabbit.Connection // RabbitMQ closes it when it cannot declare something in time
	returning *rabbit.Connection // messages to the queues of services, and parked copies
	outgoing  *rabbit.Connection // outgoing messages of handlers

	all        []io.Closer // of these
	publishers []*rabbit.Publisher
}

// maxGivenUp is the number of unconfirmed messages after which their channel is given
// up: RabbitMQ may not answer on it for long.
const maxGivenUp = 8

// open opens all connections. After an error close closes those that are open.
func (c *connections) open() (err error) {
	c.consuming, err = transport.NewConnection(
		wamqp.ConnectionConfig{AmqpURI: c.server.URL, TLSConfig: c.server.TLS, AmqpConfig: &amqp.Config{Dial: c.server.Dial}}, c.server.Logger,
		transport.ConnectionName("watership consuming"), transport.Nodes(c.server.Nodes...))
	if err != nil {
		return err
	}
	c.all = append(c.all, c.consuming)
	for _, one := range []struct {
		connection **rabbit.Connection
		name       string
	}{
		{&c.declaring, "watership declaring"},
		{&c.sending, "watership publishing"},
		{&c.returning, "watership returning"},
		{&c.outgoing, "watership outgoing"},
	} {
		if *one.connection, err = c.connect(one.name); err != nil {
			return err
		}
		c.all = append(c.all, *one.connection)
	}
	return nil
}

func (c *connections) connect(name string) (*rabbit.Connection, error) {
	server := c.server
	server.Name = name
	return rabbit.Open(server)
}

// publisherOn returns a publisher that close closes.
func (c *connections) publisherOn(connection *rabbit.Connection) *rabbit.Publisher {
	publisher := rabbit.NewPublisher(connection, rabbit.PublisherConfig{MaxGivenUp: maxGivenUp})
	c.publishers = append(c.publishers, publisher)
	return publisher
}

// dedicatedPublisher returns a publisher with its own connection, and the function that closes both.
func (c *connections) dedicatedPublisher() (by *rabbit.Publisher, end func(), err error) {
	connection, err := c.connect("watership probing")
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
func (c *connections) frameMax() schemas.FrameMax { return schemas.FrameMax(c.sending.FrameMax()) }

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
