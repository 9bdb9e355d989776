package transport

import (
	"errors"
	"fmt"
	"log/slog"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
)

// Connection is a connection that subscribers share, or publishers: RabbitMQ stops reading
// a connection whose publishes it cannot keep up with, and acknowledgements with them.
// It reconnects for ever.
type Connection struct {
	conn *rabbit.Connection
}

// NewConnection opens a connection. It does not wait for the broker: the error concerns
// the configuration. Of the options only ConnectionName and Nodes count. A nil logger stands for
// none.
func NewConnection(cfg wamqp.ConnectionConfig, logger *slog.Logger, opts ...Option) (*Connection, error) {
	conn, err := connect(cfg, logger, newOptions(opts), true)
	if err != nil {
		return nil, err
	}
	return &Connection{conn}, nil
}

// Err returns the reason why there is no connection now; nil while there is one.
func (c *Connection) Err() error { return c.conn.Err() }

// Close closes the connection. Close its subscribers and publishers first.
func (c *Connection) Close() error { return c.conn.Close() }

// connect opens a connection with the configuration of watermill-amqp.
func connect(cfg wamqp.ConnectionConfig, logger *slog.Logger, o options, consuming bool) (*rabbit.Connection, error) {
	conf := rabbit.Config{
		URL:         cfg.AmqpURI,
		TLS:         cfg.TLSConfig,
		Nodes:       o.nodes,
		Name:        o.name,
		Logger:      logger,
		LargeFrames: consuming,
	}
	if cfg.AmqpConfig != nil {
		if cfg.TLSConfig != nil && cfg.AmqpConfig.TLSClientConfig != nil {
			return nil, errors.New("both Connection.TLSConfig and Connection.AmqpConfig.TLSClientConfig are set")
		}
		conf.AMQP = *cfg.AmqpConfig
		conf.Dial = cfg.AmqpConfig.Dial
	}
	if r := cfg.Reconnect; r != nil {
		conf.Backoff = backoff.Backoff{Min: r.BackoffInitialInterval, Max: r.BackoffMaxInterval}
	}
	return rabbit.Open(conf)
}

// complete checks the configuration and sets its defaults.
func complete(cfg wamqp.Config, validate func(wamqp.Config) error) (wamqp.Config, error) {
	if cfg.Marshaler == nil {
		cfg.Marshaler = Marshaler{}
	}
	if cfg.TopologyBuilder == nil {
		cfg.TopologyBuilder = &wamqp.DefaultTopologyBuilder{}
	}
	if err := validate(cfg); err != nil {
		return cfg, fmt.Errorf("AMQP configuration: %w", err)
	}
	if cfg.Publish.Immediate {
		return cfg, errors.New("AMQP configuration: Publish.Immediate is set, which RabbitMQ does not support")
	}
	return cfg, nil
}

// declareExchange declares the exchange of a topic, if it has one.
func declareExchange(ch *amqp.Channel, cfg wamqp.Config, topic string) error {
	name := cfg.Exchange.GenerateName(topic)
	if name == "" {
		return nil
	}
	if err := cfg.TopologyBuilder.ExchangeDeclare(ch, name, cfg); err != nil {
		return fmt.Errorf("declare exchange %q: %w", name, err)
	}
	return nil
}
