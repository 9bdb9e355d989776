package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// Connection returns the App's connection, which is closed with the App. It connects in
// the background and reconnects.
func (a *App) Connection() (*rabbit.Connection, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.connection(a.logger)
}

// connection opens the connection if it is not open. It uses amqp.url, so that the
// embedded broker limits it like any client.
func (a *App) connection(logger *slog.Logger) (*rabbit.Connection, error) {
	if a.conn != nil {
		return a.conn, nil
	}
	if a.running.noBroker != nil {
		return nil, a.running.noBroker
	}
	cfg := a.brokerConfig(a.name)
	cfg.Logger = logger
	conn, err := rabbit.Open(cfg)
	if err != nil {
		return nil, err
	}
	a.conn = conn
	a.closers = append(a.closers, conn.Close)
	return conn, nil
}

// Dial returns the App's connection once it is open. It returns the first failure to
// connect, while the connection goes on trying for later callers. Callers wait without
// the lock, each for its own ctx.
func (a *App) Dial(ctx context.Context) (*rabbit.Connection, error) {
	a.mu.Lock()
	conn, err := a.connection(nil)
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := a.awaitOpen(ctx, conn); err != nil {
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

func (a *App) awaitOpen(ctx context.Context, conn *rabbit.Connection) error {
	ctx, cancel := WithTimeout(ctx)
	defer cancel()
	first := conn.Err()
	for err := first; ; err = conn.Err() {
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return &BrokerError{fmt.Errorf("connecting to %s: %w", a.settings.AMQP.URL, context.Cause(ctx))}
		case hasCause(err) || err.Error() != first.Error():
			return &BrokerError{fmt.Errorf("connecting to %s: %w", a.settings.AMQP.URL, err)}
		}
		select {
		case <-time.After(dialPoll):
		case <-ctx.Done():
		}
	}
}

// hasCause reports whether a connection attempt has failed. Before that, the error only
// says that there is no connection yet.
func hasCause(err error) bool {
	var network *net.OpError
	var broker *amqp091.Error
	return errors.As(err, &network) || errors.As(err, &broker) || errors.Unwrap(err) != nil
}

// Publisher returns the publisher on the App's connection, which is closed with the App.
func (a *App) Publisher(ctx context.Context) (*rabbit.Publisher, error) {
	conn, err := a.Dial(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.publisher == nil {
		a.publisher = rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
		a.closers = append(a.closers, a.publisher.Close)
	}
	return a.publisher, nil
}

// open opens a connection for a part of a running server, past the limits of the
// embedded broker.
func (a *App) open(purpose string, consuming bool) (*rabbit.Connection, error) {
	cfg := a.brokerConfig(purpose)
	cfg.URL, cfg.Logger, cfg.LargeFrames = a.serverURL(), a.logger, consuming
	return rabbit.Open(cfg)
}

// brokerConfig returns the configuration of a connection to amqp.url.
func (a *App) brokerConfig(name string) rabbit.Config {
	return rabbit.Config{URL: a.settings.AMQP.URL.Reveal(), TLS: a.secrets.AMQPTLS, Name: "watership " + name, Instance: a.running.instance}
}

// serverURL returns the URL at which a running server reaches the broker.
func (a *App) serverURL() string {
	if url := a.embedded.URL(); url != "" {
		return url
	}
	return a.settings.AMQP.URL.Reveal()
}

// Management returns a client of RabbitMQ's HTTP API.
func (a *App) Management() (*rabbit.Management, error) {
	if a.running.noBroker != nil {
		return nil, a.running.noBroker
	}
	return rabbit.NewManagement(a.settings.AMQP.ManagementURL.Reveal(), a.secrets.ManagementClient())
}

// Source returns the name of the RabbitMQ system, which every event has.
func (a *App) Source(ctx context.Context) (string, error) {
	conn, err := a.Connection()
	if err != nil {
		return "", err
	}
	return a.source(ctx, conn)
}

func (a *App) source(ctx context.Context, conn *rabbit.Connection) (string, error) {
	if a.settings.Source != "" {
		return a.settings.Source, nil
	}
	return conn.Source(ctx)
}

// queueState returns the number of messages and consumers of a queue, as AMQP says them.
func queueState(ctx context.Context, conn *rabbit.Connection, queue string) (rabbit.QueueState, error) {
	state, found, err := conn.QueueState(ctx, queue)
	if err == nil && !found {
		err = fmt.Errorf("there is no queue %q", queue)
	}
	return state, err
}
