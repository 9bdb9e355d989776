// Package system opens the resources that the parts of Watership share, each once: the settings and their
// secrets, the connection to RabbitMQ, the store, and the language of queries.
package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system/embedded"
	"github.com/watershipmq/watership/internal/system/otlp"
	"github.com/watershipmq/watership/internal/system/secret"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
	"github.com/watershipmq/watership/subscription"
)

// Config holds the settings of a System.
type Config struct {
	Settings config.Config

	// Name is part of the name of the System's connection on RabbitMQ's management page.
	Name string

	// Logger logs the problems of connections and of the running parts.
	Logger *slog.Logger

	// StoreLogger logs problems that keep events out of the store. Nil: Logger.
	StoreLogger *slog.Logger

	// Programs run the programs of replays and subscriptions. Nil: this process runs them, without a limit of
	// memory.
	Programs *transform.Processes

	// Dial opens the byte streams to RabbitMQ and its management API. Nil: TCP.
	Dial func(network, address string) (net.Conn, error)

	// DialTarget opens the connections to URLs of subscriptions. Nil: TCP, to the internet and
	// the networks of subscriptions.private_networks.
	DialTarget func(ctx context.Context, network, address string) (net.Conn, error)

	// OpenStore opens the store. Nil: the store of store.url.
	OpenStore func(ctx context.Context) (ClosableStore, error)

	// Broker limits the embedded broker that Start makes.
	Broker broker.Limits
}

// System opens connections to RabbitMQ and the store when they are first asked for. A
// second caller gets the same connection.
type System struct {
	Language
	connections
	open       func(ctx context.Context) (ClosableStore, error)
	dialTarget func(ctx context.Context, network, address string) (net.Conn, error) // nil: TCP

	events        EventStore // guarded by mu, as the ones below
	exporters     *otlp.Exporters
	subscriptions *subscription.Subscriptions
}

// configuration has the settings, and what follows from them.
type configuration struct {
	settings    config.Config                 // of the start
	current     atomic.Pointer[config.Config] // settings with the latest routes and policies; nil: they are as at the start
	logger      *slog.Logger
	storeLogger *slog.Logger
	topology    schemas.Topology
	login       string
	vhost       string
	secrets     secret.Secrets
	redactor    *privacy.Redactor // nil: nothing is redacted
	programs    *transform.Processes
}

// connections opens the connections to RabbitMQ.
type connections struct {
	*configuration
	name     string
	dial     func(network, address string) (net.Conn, error) // nil: TCP
	embedded *embedded.Broker                                // broker of this process; nil: none
	running  running                                         // broker of another process

	mu        sync.Mutex // guards the opened connections
	conn      *rabbit.Connection
	publisher *rabbit.Publisher
	closers   []func() error // of everything that was opened, in that order
}

// New makes a System that uses the servers of the configuration, or the embedded broker
// and the store of the process that runs on the data folder. It asks no server. Errors
// in settings are InputErrors.
func New(cfg Config) (*System, error) {
	settings, found, err := findRunning(cfg.Settings.Clone())
	if err != nil {
		return nil, err
	}
	cfg.Settings = settings
	s, err := newSystem(cfg)
	if err != nil {
		return nil, err
	}
	s.running = found
	return s, nil
}

// Start makes a System for a server. If amqp.url is embedded://, it starts the embedded
// broker, which Close ends.
func Start(ctx context.Context, cfg Config) (*System, error) {
	cfg.Settings = cfg.Settings.Clone()
	e, err := embedded.Start(ctx, &cfg.Settings, broker.Config{Logger: cfg.Logger, Limits: cfg.Broker})
	if err != nil {
		return nil, err
	}
	s, err := newSystem(cfg)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	s.embedded = e
	s.closers = append(s.closers, e.Close)
	return s, nil
}

func newSystem(cfg Config) (*System, error) {
	settings := cfg.Settings
	files, err := secret.Read(&settings)
	if err != nil {
		return nil, InputError{err}
	}
	var uri amqp091.URI
	if !settings.AMQP.URL.IsEmbedded() {
		if uri, err = amqp091.ParseURI(settings.AMQP.URL.Reveal()); err != nil {
			return nil, InputErrorf("amqp.url %s cannot be read", settings.AMQP.URL)
		}
		if _, err := rabbit.NewManagement(settings.AMQP.ManagementURL.Reveal(), nil, settings.AMQP.ManagementURL.Nodes()...); err != nil {
			return nil, InputErrorf("amqp.management_url: %w", err)
		}
	}
	subjects := &subjectKeys{}
	redactor, err := privacy.New(privacy.Config{
		Rules: settings.Redact.Rules, HashKeys: files.HashKeys, KeepUnknown: settings.Redact.Unknown == "keep", Originals: files.Originals,
		Subjects: subjects, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, InputErrorf("redact: %w", err)
	}
	configured := &configuration{
		settings: settings, logger: redactor.Logger(cfg.Logger), storeLogger: redactor.Logger(cfg.StoreLogger), redactor: redactor, topology: topologyOf(settings),
		login: rabbit.UserID(uri), vhost: uri.Vhost, secrets: files, programs: cfg.Programs,
	}
	s := &System{
		Language:    Language{formatOf(settings.Clone(), redactor)},
		connections: connections{configuration: configured, name: cfg.Name, dial: cfg.Dial}, open: cfg.OpenStore, dialTarget: cfg.DialTarget,
	}
	subjects.system = s
	if s.open == nil {
		s.open = s.openStore
	}
	if s.storeLogger == nil {
		s.storeLogger = s.logger
	}
	return s, nil
}

func formatOf(settings config.Config, redactor *privacy.Redactor) schemas.DocumentFormat {
	index := settings.Index
	format := schemas.DocumentFormat{
		StreamOf: settings.Store.Retention.Rules.StreamOf,
		Labels:   index.Labels, NumericLabels: index.NumericLabels,
		NoBodyText: !index.Body.Text, NoBodyJSON: !index.Body.JSON, MaxValues: index.Body.MaxValues,
	}
	if redactor != nil {
		format.Redact = redactor.Event
	}
	if redactor.NamesSubjects() {
		format.Prepare = redactor.Prepare
	}
	return format
}

func topologyOf(settings config.Config) schemas.Topology {
	topology := schemas.Topology{Prefix: settings.Topology.Prefix}
	if settings.Tap.WhenFull == "drop_oldest" {
		topology.IndexLimit = int64(settings.Tap.Limit)
	}
	if settings.Index.Partitions > 1 {
		topology.IndexPartitions = settings.Index.Partitions
		if settings.Index.PartitionKey != "routing_key" {
			topology.PartitionKey = settings.Index.PartitionKey
		}
	}
	topology.ClassicIndex = settings.Topology.QueueType != "classic" && settings.Tap.QueueType == "classic"
	return topology
}

// Settings returns the configuration with the addresses in use.
func (s *configuration) Settings() config.Config { return s.configured().Clone() }

// Replace replaces the settings after a reload. The settings of servers stay as they are.
func (s *configuration) Replace(settings config.Config) { s.current.Store(&settings) }

// configured returns the settings with the latest routes and policies. The others are the settings of
// the start.
func (s *configuration) configured() *config.Config {
	if latest := s.current.Load(); latest != nil {
		return latest
	}
	return &s.settings
}

// Topology returns the names of Watership's exchanges and queues.
func (s *configuration) Topology() schemas.Topology { return s.topology }

// VHost returns the virtual host of amqp.url.
func (s *configuration) VHost() string { return s.vhost }

// Login returns the user of amqp.url.
func (s *configuration) Login() string { return s.login }

// Logger returns the logger of the running parts.
func (s *configuration) Logger() *slog.Logger { return s.logger }

// StoreLogger returns the logger of problems that keep events out of the store.
func (s *configuration) StoreLogger() *slog.Logger { return s.storeLogger }

// Secrets returns the passwords, keys and certificates from the files of the configuration.
func (s *configuration) Secrets() secret.Secrets { return s.secrets }

// Redactor returns what replaces values before they are stored, and opens the originals of messages.
func (s *configuration) Redactor() *privacy.Redactor { return s.redactor }

// Opener returns what opens the originals of redacted messages; nil: this process has no keys.
func (s *configuration) Opener() privacy.Opener {
	if !s.redactor.Opens() {
		return nil
	}
	return s.redactor
}

// Programs returns the processes that run the programs of replays and subscriptions; nil: this process runs them.
func (s *configuration) Programs() *transform.Processes { return s.programs }

// Embedded returns the embedded broker of this process; nil: none.
func (s *connections) Embedded() *embedded.Broker { return s.embedded }

// NoBroker returns why the folder of amqp.url embedded:// has no running broker; nil if it has
// one, or if amqp.url names a broker.
func (s *connections) NoBroker() error { return s.running.noBroker }

// Sign signs the state of a message, if there are keys.
func (s *configuration) Sign(m rabbit.Message) rabbit.Message {
	verifier := wire.Verifier{Topology: s.topology, Keys: s.secrets.StateKeys}
	m.Publishing = verifier.Sign(m.Exchange, m.RoutingKey, m.Publishing)
	return m
}

// Streams returns the function that finds the streams of messages.
func (s *configuration) Streams() func(schemas.Envelope) schemas.MessageStream {
	streams, _ := streamid.New(s.settings.Streams...) // the configuration has checked them
	return streams
}

// Exporters returns the exporters to the collector of traces, which Close ends; nil: none is configured.
func (s *System) Exporters() *otlp.Exporters {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exporters != nil {
		return s.exporters
	}
	opened, err := s.openExporters()
	if err != nil { // of the environment's variables, or a file: traces are no reason to stop
		s.logger.Error("there are no traces", "error", err)
		return nil
	}
	if opened != nil {
		s.exporters = opened
		s.closers = append(s.closers, opened.Close)
	}
	return opened
}

func (s *System) openExporters() (*otlp.Exporters, error) {
	traces := s.settings.Traces
	headers, err := secret.TraceHeaders(traces.HeadersFile)
	if err != nil {
		return nil, err
	}
	return otlp.Open(context.Background(), otlp.Config{
		Endpoint: traces.Endpoint.Reveal(), Headers: headers, Sample: traces.Sample, Version: Version(), Logger: s.logger,
	})
}

// Close closes the connections, the store and the embedded broker, the newest first.
func (s *System) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed []error
	for _, end := range slices.Backward(s.closers) {
		failed = append(failed, end())
	}
	s.events, s.conn, s.publisher, s.subscriptions, s.exporters, s.closers = nil, nil, nil, nil, nil, nil
	return errors.Join(failed...)
}

// Loss counts the messages that Close deletes with the embedded broker, and how many of
// them are not recorded in the store.
func (s *System) Loss() (messages, unrecorded int) {
	for queue, n := range s.embedded.QueueLengths() {
		messages += n
		if slices.Contains(s.topology.Indexed(), queue) {
			unrecorded += n
		}
	}
	return messages, unrecorded
}

// RequestTimeout bounds the requests that a caller waits for.
const RequestTimeout = 15 * time.Second

// WithTimeout returns a context that ends after RequestTimeout.
func WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, RequestTimeout, fmt.Errorf("no answer within %s", RequestTimeout))
}
