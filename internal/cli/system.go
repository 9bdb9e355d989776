package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/shop"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/schemas"
)

// system makes the parts of Watership from the configuration.
type system struct {
	cfg      config.Config
	logger   *slog.Logger
	storing  *slog.Logger // logs problems that keep events out of the store
	topology schemas.Topology
	login    string
	vhost    string
	secrets  secrets

	shop   *shop.Shop // the example system; nil: there is none
	inside string     // where this process reaches a broker inside; "": there is none
	local
}

// system is for commands that use a broker which another process runs. They print
// their results themselves: unless log.level is set, only warnings are logged.
func (s *settings) system(t terminal.Streams) (system, error) {
	cfg, err := s.loadOver(map[string]string{"log.level": "warn"})
	if err != nil {
		return system{}, err
	}
	found, err := find(&cfg)
	if err != nil {
		return system{}, err
	}
	made, err := newSystem(t, cfg)
	made.local = found
	return made, err
}

func newSystem(t terminal.Streams, cfg config.Config) (system, error) {
	files, err := readSecrets(&cfg)
	if err != nil {
		return system{}, err
	}
	var uri amqp091.URI
	if !cfg.AMQP.URL.IsEmbedded() {
		if uri, err = amqp091.ParseURI(cfg.AMQP.URL.Reveal()); err != nil {
			return system{}, usagef("amqp.url %s cannot be read", cfg.AMQP.URL)
		}
		if _, err := rabbit.NewManagement(cfg.AMQP.ManagementURL.Reveal(), nil); err != nil {
			return system{}, usagef("amqp.management_url: %w", err)
		}
	}
	topology := schemas.Topology{Prefix: cfg.Topology.Prefix}
	if cfg.Tap.WhenFull == "drop_oldest" {
		topology.IndexLimit = int64(cfg.Tap.Limit)
	}
	logger := newLogger(t, cfg.Log)
	return system{
		cfg: cfg.Clone(), logger: logger, storing: logger,
		topology: topology, login: rabbit.UserID(uri), vhost: uri.Vhost, secrets: files,
	}, nil
}

func (s system) brokerURL() string { return cmp.Or(s.inside, s.cfg.AMQP.URL.Reveal()) }

func (s system) connect(name string, consuming bool) (*rabbit.Connection, error) {
	if s.away != nil {
		return nil, s.away
	}
	cfg := s.broker(name)
	cfg.URL, cfg.Logger, cfg.LargeFrames = s.brokerURL(), s.logger, consuming
	return rabbit.Open(cfg)
}

// broker configures a connection to amqp.url, as other clients connect.
func (s system) broker(name string) rabbit.Config {
	return rabbit.Config{URL: s.cfg.AMQP.URL.Reveal(), TLS: s.secrets.amqpTLS, Name: "watership " + name, Instance: s.instance}
}

// managementAPI returns a client of RabbitMQ's HTTP API.
func (s system) managementAPI() (*rabbit.Management, error) {
	if s.away != nil {
		return nil, s.away
	}
	return rabbit.NewManagement(s.cfg.AMQP.ManagementURL.Reveal(), s.secrets.managementClient())
}

// source returns the name of the RabbitMQ system, which every event has.
func (s system) source(ctx context.Context, conn *rabbit.Connection) (string, error) {
	if s.cfg.Source != "" {
		return s.cfg.Source, nil
	}
	cluster, err := conn.ClusterName(ctx)
	if err != nil {
		return "", fmt.Errorf("asking the broker for its name: %w", err)
	}
	if cluster == "" {
		return "", errors.New("the broker does not say its cluster's name: set source in the configuration")
	}
	return cluster + "/" + s.vhost, nil
}

// signed signs the state of a message, if there are keys.
func (s system) signed(m rabbit.Message) rabbit.Message {
	verifier := schemas.Verifier{Topology: s.topology, Keys: s.secrets.stateKeys}
	m.Publishing = verifier.Sign(m.Exchange, m.RoutingKey, m.Publishing)
	return m
}

func (s system) format() schemas.DocumentFormat {
	index := s.cfg.Clone().Index
	return schemas.DocumentFormat{
		Labels: index.Labels, NumericLabels: index.NumericLabels,
		NoBodyText: !index.Body.Text, NoBodyJSON: !index.Body.JSON, MaxValues: index.Body.MaxValues,
	}
}
