package transport

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
)

// connect opens a connection with the configuration of watermill-amqp.
func connect(cfg wamqp.ConnectionConfig, logger watermill.LoggerAdapter, name string, consuming bool) (*rabbit.Connection, error) {
	conf := rabbit.Config{
		URL:         cfg.AmqpURI,
		TLS:         cfg.TLSConfig,
		Name:        name,
		Logger:      slog.New(logHandler{adapter: logger}),
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
