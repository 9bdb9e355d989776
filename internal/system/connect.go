package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
)

// Connection returns the System's connection, which is closed with the System. It connects in
// the background and reconnects.
func (s *connections) Connection() (*rabbit.Connection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connection(s.logger)
}

// connection opens the connection if it is not open. It uses amqp.url, so that the
// embedded broker limits it like any client.
func (s *connections) connection(logger *slog.Logger) (*rabbit.Connection, error) {
	if s.conn != nil {
		return s.conn, nil
	}
	if s.running.noBroker != nil {
		return nil, s.running.noBroker
	}
	cfg := s.Broker(s.name)
	cfg.Logger = logger
	conn, err := rabbit.Open(cfg)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	s.closers = append(s.closers, conn.Close)
	return conn, nil
}

// Dial returns the System's connection once it is open. It returns the first failure to
// connect, while the connection goes on trying for later callers. Callers wait without
// the lock, each for its own ctx.
func (s *connections) Dial(ctx context.Context) (*rabbit.Connection, error) {
	s.mu.Lock()
	conn, err := s.connection(nil)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.awaitOpen(ctx, conn); err != nil {
		return nil, err
	}
	return conn, nil
}

// BrokerError is returned when RabbitMQ cannot be reached.
type BrokerError struct{ Err error }

// Error implements error.
func (e *BrokerError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BrokerError) Unwrap() error { return e.Err }

// dialPoll is how often awaitOpen checks whether the broker has answered.
const dialPoll = 10 * time.Millisecond

func (s *connections) awaitOpen(ctx context.Context, conn *rabbit.Connection) error {
	ctx, cancel := WithTimeout(ctx)
	defer cancel()
	first := conn.Err()
	for err := first; ; err = conn.Err() {
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return &BrokerError{fmt.Errorf("connecting to %s: %w", s.settings.AMQP.URL, context.Cause(ctx))}
		case hasCause(err) || err.Error() != first.Error():
			return &BrokerError{fmt.Errorf("connecting to %s: %w", s.settings.AMQP.URL, err)}
		}
		_ = backoff.Sleep(ctx, dialPoll)
	}
}

// hasCause reports whether a connection attempt has failed. Before that, the error only
// says that there is no connection yet.
func hasCause(err error) bool {
	var network *net.OpError
	var broker *amqp091.Error
	return errors.As(err, &network) || errors.As(err, &broker) || errors.Unwrap(err) != nil
}

// Publisher returns the publisher on the System's connection, which is closed with the System.
func (s *connections) Publisher(ctx context.Context) (*rabbit.Publisher, error) {
	conn, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.publisher == nil {
		s.publisher = rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
		s.closers = append(s.closers, s.publisher.Close)
	}
	return s.publisher, nil
}

// Open opens a connection for a part of a running server, past the limits of the
// embedded broker.
func (s *connections) Open(purpose string, consuming bool) (*rabbit.Connection, error) {
	cfg := s.Broker(purpose)
	cfg.Logger, cfg.LargeFrames = s.logger, consuming
	cfg.URL, cfg.Nodes = s.ServerURL(), s.ServerNodes()
	return rabbit.Open(cfg)
}

// Broker returns the configuration of a connection to amqp.url.
func (s *connections) Broker(name string) rabbit.Config {
	return rabbit.Config{URL: s.settings.AMQP.URL.Reveal(), Nodes: s.settings.AMQP.URL.Nodes(), TLS: s.secrets.AMQPTLS, Dial: s.dial, Name: "watership " + name, Instance: s.running.instance}
}

// ServerURL returns the URL at which a running server reaches the broker.
func (s *connections) ServerURL() string {
	if url := s.embedded.URL(); url != "" {
		return url
	}
	return s.settings.AMQP.URL.Reveal()
}

// ServerNodes returns the host:port of further nodes of the broker at ServerURL.
func (s *connections) ServerNodes() []string {
	if s.embedded.URL() != "" {
		return nil
	}
	return s.settings.AMQP.URL.Nodes()
}

// Management returns a client of RabbitMQ's HTTP API.
func (s *connections) Management() (*rabbit.Management, error) {
	if s.running.noBroker != nil {
		return nil, s.running.noBroker
	}
	address := s.settings.AMQP.ManagementURL
	return rabbit.NewManagement(address.Reveal(), s.ManagementClient(), address.Nodes()...)
}

// CheckCluster returns an InputError if the management API is of another cluster than the connection, and
// another error if that is not known.
func CheckCluster(ctx context.Context, management *rabbit.Management, conn *rabbit.Connection) error {
	err := management.CheckCluster(ctx, conn)
	var other *rabbit.OtherClusterError
	if errors.As(err, &other) {
		return InputErrorf("amqp.management_url: %w: set it to the API of the broker of amqp.url", other)
	}
	return err
}

// ManagementClient returns the HTTP client for the management API, which trusts the same
// certificates as for AMQP.
func (s *connections) ManagementClient() *http.Client {
	return rabbit.ManagementClient(s.secrets.AMQPTLS, s.dial)
}

// Source returns the name of the RabbitMQ system, which every event has.
func (s *connections) Source(ctx context.Context) (string, error) {
	conn, err := s.Connection()
	if err != nil {
		return "", err
	}
	return s.SourceOf(ctx, conn)
}

// SourceOf is Source by another connection.
func (s *connections) SourceOf(ctx context.Context, conn *rabbit.Connection) (string, error) {
	if s.settings.Source != "" {
		return s.settings.Source, nil
	}
	return conn.Source(ctx)
}
